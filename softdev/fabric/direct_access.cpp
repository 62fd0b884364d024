// SPDX-License-Identifier: MIT
#include "softdev/fabric/direct_access.hpp"

#include <array>

#include "softdev/core/atomic.hpp"
#include "softdev/core/copy.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/same_process.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/fabric/published_views.hpp"

namespace verbena::softdev {
namespace {

/// From this length on, waiting until a request can be executed directly costs less than sending
/// its payload through the ring, where it is copied twice.
constexpr std::uint64_t min_waiting_bytes = 4096;

/// The limits of one call: the peer's fence waits for the call.
constexpr std::uint8_t max_followers = 63;
constexpr std::uint64_t max_bytes_at_once = 65536;

/// The published responder, for the requests of one sender in one call. It is looked up once:
/// objects that its process withdraws stay usable until the call ends, because the fence of that
/// process waits for the call.
class target {
 public:
  explicit target(peer& at) noexcept : at_(at) {}

  /// Looks up the objects that `what` needs. Returns false if the responder might not permit
  /// `what`.
  [[nodiscard]] bool admits(const queue_pair& sender, const message& what) noexcept {
    if (!connected_) {
      if (!read_queue_pair(at_.segment(), sender, what, responder_)) return false;
      // The other requests have the same queue pairs, port and sequence number.
      if (connection_refusal(responder_, what) != reason::none) return false;
      if (awaits_first_request(at_.segment(), responder_)) return false;
      connected_ = true;
    }
    if (accesses_region(what) && !find_region(what.remote_key)) return false;
    return permits_request(responder_, region_view_, what);
  }

  // The functions below refer to the region of the last admitted request.

  [[nodiscard]] bool is_ordinary_memory() const noexcept { return region_.arena == 0; }
  /// Returns the address of the request's first byte in the other process.
  [[nodiscard]] std::uint64_t address(const message& what) const noexcept {
    return region_.address + (what.remote_address - region_.iova);
  }
  /// Returns the request's memory, mapped in this process; nullptr if it is not mapped, or not yet.
  [[nodiscard]] std::byte* map(const message& what) noexcept {
    if (is_ordinary_memory()) return nullptr;
    const map_access wanted =
        what.opcode == opcode::rdma_read ? map_access::read_only : map_access::read_write;
    if (mapped_ == nullptr || wanted > mapped_for_) {
      const auto found = at_.map(region_.arena, region_.arena_offset, region_.length, wanted);
      if (found.status != map_status::ready) return nullptr;
      mapped_ = found.address;
      mapped_for_ = wanted;
    }
    return mapped_ + (what.remote_address - region_.iova);
  }
  /// Returns false if the owner replaced the region's pages: accesses since `admits` used the old
  /// pages.
  [[nodiscard]] bool is_current() const noexcept { return peer_segment::is_current(region_); }
  /// Returns whether there is a region with this key.
  [[nodiscard]] bool is_published(std::uint32_t key) const noexcept {
    region_record now;
    return at_.segment().find_region(key, now) != lookup::absent;
  }

 private:
  [[nodiscard]] bool find_region(std::uint32_t key) noexcept {
    if (region_.found_at != nullptr && region_.key == key) return true;
    mapped_ = nullptr;
    region_.found_at = nullptr;
    if (at_.segment().find_region(key, region_) != lookup::found) return false;
    region_view_.domain = static_cast<domain_id>(region_.pd);
    region_view_.iova = region_.iova;
    region_view_.length = region_.length;
    region_view_.rights = access_flags::from_mask(region_.access);
    return true;
  }

  peer& at_;
  bool connected_ = false;
  responder_view responder_;
  region_record region_;
  region_view region_view_;
  std::byte* mapped_ = nullptr;  ///< the region's first byte
  map_access mapped_for_ = map_access::read_only;
};

/// `uncertain`: an atomic changed pages that the owner replaced at the same time, before or after
/// it copied them.
enum class execution : std::uint8_t { done, by_responder, bad_local_memory, uncertain };

/// Executes a request in mapped memory. If local memory is not accessible, sets `bad` to its piece.
execution execute_mapped(const message& what, std::span<const segment> local, std::byte* memory,
                         const std::byte*& bad) noexcept {
  if (is_write(what.opcode)) {
    std::byte* to = memory;
    for (const auto& [data, bytes] : local) {
      const copy_fault fault = copy_payload(to, data, bytes);
      if (fault == copy_fault::none) {
        to += bytes;
        continue;
      }
      bad = data;
      return fault == copy_fault::source ? execution::bad_local_memory : execution::by_responder;
    }
    return execution::done;
  }
  std::uint64_t original = 0;
  std::span<const std::byte> result(memory, what.length);
  if (is_atomic(what.opcode)) {
    if (execute_atomic(memory, what, original) != atomic_outcome::done)
      return execution::by_responder;
    result = std::as_bytes(std::span(&original, 1));
  }
  const auto [fault, piece] = scatter(local, 0, result);
  bad = piece;
  if (fault == copy_fault::sink) return execution::bad_local_memory;
  return fault == copy_fault::none ? execution::done : execution::by_responder;
}

/// Executes an admitted request in mapped memory. If the owner replaced the pages, which it does
/// only after this process was stopped for a while, the responder executes the request again.
execution execute_mapped(const target& at, const message& what, std::span<const segment> local,
                         std::byte* memory, const std::byte*& bad) noexcept {
  const execution outcome = execute_mapped(what, local, memory, bad);
  if (at.is_current()) return outcome;
  // The responder refuses a request to a region that was withdrawn, but would repeat others.
  const bool repeats = is_atomic(what.opcode) && outcome != execution::by_responder &&
                       at.is_published(what.remote_key);
  return repeats ? execution::uncertain : execution::by_responder;
}

/// Requests for one system call: all writes or all reads of ordinary memory. The kernel looks up
/// the pages of each place, so adjacent ranges become one place. A write to the same place as the
/// write before replaces it, because no reader could be sure to see the first one.
class copy_list {
 public:
  explicit copy_list(opcode op) noexcept : op_(op) {}

  /// Adds a request. Returns false if it does not fit.
  [[nodiscard]] bool add(const message& what, std::span<const segment> pieces,
                         std::uint64_t address) noexcept {
    if (requests_ == ends_.size() || pieces.size() > local_.size() - pieces_) return false;
    if (replaces_last(address, what.length)) {
      pieces_ = last_piece_;
      bytes_ -= what.length;
    } else if (places_ > 0 && address == next_address_) {
      remote_[places_ - 1].iov_len += what.length;
      last_is_alone_ = false;
    } else {
      remote_[places_++] = place_in_process(address, what.length);
      last_is_alone_ = true;
    }
    last_piece_ = pieces_;
    for (const auto& [data, bytes] : pieces) local_[pieces_++] = {data, bytes};
    next_address_ = address + what.length;
    bytes_ += what.length;
    ends_[requests_++] = bytes_;
    return true;
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint8_t requests() const noexcept { return requests_; }

  /// Copies. Returns the number of requests that were executed completely.
  [[nodiscard]] std::uint8_t execute(peer& at) noexcept {
    const std::span<const iovec> here(local_.data(), pieces_);
    const std::span<const iovec> there(remote_.data(), places_);
    const copy_outcome outcome =
        op_ == opcode::rdma_read ? at.process().read(here, there) : at.process().write(here, there);
    if (outcome.status == copy_status::ok) return requests_;
    std::uint8_t whole = 0;
    while (whole < requests_ && ends_[whole] <= outcome.copied) ++whole;
    return whole;
  }

 private:
  [[nodiscard]] bool replaces_last(std::uint64_t address, std::uint32_t length) const noexcept {
    return op_ == opcode::rdma_write && last_is_alone_ && next_address_ == address + length &&
           remote_[places_ - 1].iov_len == length;
  }

  const opcode op_;
  bool last_is_alone_ = false;  ///< the last place belongs to one request
  std::uint8_t requests_ = 0;
  std::size_t places_ = 0;
  std::size_t pieces_ = 0;
  std::size_t last_piece_ = 0;      ///< the first one of the last request
  std::uint64_t next_address_ = 0;  ///< after the last request
  std::uint64_t bytes_ = 0;
  std::array<iovec, limits::max_sges + max_followers> local_;
  std::array<iovec, max_followers + 1> remote_;
  std::array<std::uint64_t, max_followers + 1> ends_;  ///< bytes up to the end of each request
};

/// Executes a request in ordinary memory, and following requests of the same kind. Returns the
/// number of executed requests.
std::uint8_t execute_copied(queue_pair& sender, peer& at, target& on, const message& what,
                            std::span<const segment> local) noexcept {
  copy_list list(what.opcode);
  outgoing_request next;
  bool fits = list.add(what, local, on.address(what));
  while (fits && list.requests() <= max_followers &&
         sender.sender().prepare_following(list.requests(), requester::numbering::none, next)) {
    fits = next.what.opcode == what.opcode && next.what.length > 0 &&
           list.bytes() + next.what.length <= max_bytes_at_once && on.admits(sender, next.what) &&
           on.is_ordinary_memory() && list.add(next.what, next.local, on.address(next.what));
  }
  return list.execute(at);
}

/// Executes requests that follow a request of `bytes` bytes, which was executed in mapped memory.
/// Returns their number.
std::uint8_t execute_following(queue_pair& sender, target& on, std::uint64_t bytes) noexcept {
  std::uint8_t done = 0;
  outgoing_request next;
  while (done < max_followers && bytes < max_bytes_at_once &&
         sender.sender().prepare_following(done + 1U, requester::numbering::none, next)) {
    bytes += next.what.length;
    // If the sink of an atomic is not accessible, the atomic must end here: it cannot be repeated.
    if (consumes_receive(next.what.opcode) || is_atomic(next.what.opcode) ||
        bytes > max_bytes_at_once || !on.admits(sender, next.what))
      break;
    if (accesses_region(next.what)) {
      std::byte* const memory = on.map(next.what);
      const std::byte* bad = nullptr;
      if (memory == nullptr ||
          execute_mapped(on, next.what, next.local, memory, bad) != execution::done)
        break;
    }
    ++done;
  }
  return done;
}

}  // namespace

bool direct_access::execute(queue_pair& sender, peer& at, const direct_request& request,
                            response& out) noexcept {
  const auto& [what, local, earlier_done] = request;
  if (consumes_receive(what.opcode)) return false;
  const bool may_wait = rules_of(what.transport).acknowledged && what.length >= min_waiting_bytes;
  if (!earlier_done && !may_wait) return false;
  const active_section section = at.enter();
  if (!section) return false;
  target on(at);
  if (!on.admits(sender, what)) return false;
  out.direct = true;
  if (!accesses_region(what)) return true;
  if (std::byte* memory = on.map(what)) {
    if (!earlier_done) {
      out = {.outcome = verdict::blocked};
      return true;
    }
    const std::byte* bad = nullptr;
    const execution outcome = execute_mapped(on, what, local, memory, bad);
    if (outcome == execution::bad_local_memory) out = local_fault(bad);
    if (outcome == execution::uncertain) out = responder::unmapped(what, 0, what.length);
    if (outcome == execution::done && sender.sender().may_have_following())
      out.followers = execute_following(sender, on, what.length);
    if (outcome != execution::by_responder) {
      mapped_.add(1U + out.followers);
      return true;
    }
  }
  // No copy to shareable memory: a fence may replace its pages and pass over a stopped peer. When
  // the peer continues, a copy by address would access the owner's new pages.
  const bool may_copy = earlier_done && on.is_ordinary_memory() && !is_atomic(what.opcode);
  const std::uint8_t copied = may_copy ? execute_copied(sender, at, on, what, local) : 0;
  if (copied == 0) {
    out.direct = false;
    return false;
  }
  out.followers = static_cast<std::uint8_t>(copied - 1);
  copied_.add(copied);
  return true;
}

}  // namespace verbena::softdev
