// SPDX-License-Identifier: MIT
#include "softdev/core/failure.hpp"

#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <mutex>

namespace verbena::softdev {
namespace {

/// Appends text like snprintf, and counts characters that did not fit.
class sentence {
 public:
  sentence(char* text, std::size_t capacity) noexcept : text_(text), capacity_(capacity) {
    if (capacity_ > 0) text_[0] = '\0';
  }
  template <class... Arguments>
  void add(const char* format, Arguments... arguments) noexcept {
    const std::size_t room = length_ < capacity_ ? capacity_ - length_ : 0;
    const int more =
        std::snprintf(room > 0 ? text_ + length_ : nullptr, room, format, arguments...);
    if (more > 0) length_ += static_cast<std::size_t>(more);
  }
  void add(const char* text) noexcept { add("%s", text); }
  [[nodiscard]] std::size_t length() const noexcept { return length_; }

 private:
  char* text_;
  std::size_t capacity_;
  std::size_t length_ = 0;
};

void add_rights(sentence& out, std::uint32_t mask) {
  static constexpr struct {
    access right;
    const char* name;
  } names[] = {{access::local_write, "local write"},
               {access::remote_write, "remote write"},
               {access::remote_read, "remote read"},
               {access::remote_atomic, "remote atomic"}};
  bool any = false;
  for (const auto& [right, name] : names) {
    if ((mask & static_cast<std::uint32_t>(right)) == 0) continue;
    out.add("%s%s", any ? ", " : "", name);
    any = true;
  }
  if (!any) out.add("none");
}

const char* opcode_name(std::uint32_t code) {
  static constexpr const char* names[] = {
      "RDMA write", "RDMA write with immediate", "send",         "send with immediate",
      "RDMA read",  "compare and swap",          "fetch and add"};
  return code < std::size(names) ? names[code] : "unknown";
}

const char* transport_name(std::uint32_t kind) {
  static constexpr const char* names[] = {"RC", "UC", "UD", "?", "SRD"};
  const std::uint32_t place = kind - static_cast<std::uint32_t>(transport::rc);
  return place < std::size(names) ? names[place] : "?";
}

void add_region(sentence& out, const failure& f) {
  out.add("0x%" PRIx64 " + %" PRIu64 " bytes is outside the region of %s 0x%x, which is 0x%" PRIx64
          " + %" PRIu64 " bytes",
          f.address, f.length, f.why == reason::local_range ? "lkey" : "rkey", f.key, f.base,
          f.limit);
}

void add_key_failure(sentence& out, const failure& f) {
  const bool local = f.why < reason::receive_too_short;
  const char* key = local ? "lkey" : "rkey";
  switch (f.why) {
    case reason::local_key_unknown:
    case reason::remote_key_unknown:
      out.add(
          "%s 0x%x is not registered (never registered, or deregistered); it was used for "
          "0x%" PRIx64 " + %" PRIu64 " bytes",
          key, f.key, f.address, f.length);
      return;
    case reason::local_key_other_domain:
    case reason::remote_key_other_domain:
      out.add("%s 0x%x belongs to protection domain %u, the queue pair to %u", key, f.key, f.detail,
              f.extra);
      return;
    case reason::local_range:
    case reason::remote_range:
      add_region(out, f);
      return;
    case reason::local_not_mapped:
    case reason::remote_not_mapped:
      out.add("0x%" PRIx64 " + %" PRIu64
              " bytes of the region of %s 0x%x are not accessible: unmapped, protected, or beyond "
              "the end of their file",
              f.address, f.length, key, f.key);
      return;
    default:
      out.add("the access flags of the region of %s 0x%x do not permit the request: it has ", key,
              f.key);
      add_rights(out, f.detail);
      out.add("; needed: ");
      add_rights(out, f.extra);
  }
}

void add_request_failure(sentence& out, const failure& f) {
  switch (f.why) {
    case reason::message_too_long:
      out.add("the message has %" PRIu64 " bytes; the maximum is %" PRIu64 "", f.length, f.limit);
      return;
    case reason::atomic_length:
      out.add("the result of an atomic needs 8 bytes of scatter list; it has %" PRIu64, f.length);
      return;
    case reason::no_read_depth:
      out.add("queue pair 0x%x was moved to RTS with max_rd_atomic 0; opcode %u (%s) needs 1",
              f.detail, f.extra, opcode_name(f.extra));
      return;
    case reason::no_address:
      out.add("the datagram of queue pair 0x%x has no destination: no address handle was set",
              f.detail);
      return;
    case reason::bad_work_request:
      out.add("the work request has opcode %u (%s), which transport %s does not have", f.detail,
              opcode_name(f.detail), transport_name(f.extra));
      return;
    case reason::receive_too_short:
    case reason::peer_receive_too_short:
      out.add("the message has %" PRIu64
              " bytes, the receive request at the head of the %squeue "
              "has room for %" PRIu64,
              f.length, f.why == reason::receive_too_short ? "" : "peer's ", f.limit);
      return;
    case reason::qp_access_denied:
      out.add("qp_access_flags of queue pair 0x%x do not permit the request: they are ", f.key);
      add_rights(out, f.detail);
      out.add("; needed: ");
      add_rights(out, f.extra);
      return;
    case reason::atomic_misaligned:
      out.add("the remote address 0x%" PRIx64 " of an atomic is not a multiple of 8", f.address);
      return;
    case reason::no_responder_resources:
      out.add("queue pair 0x%x has max_dest_rd_atomic 0: no reads or atomics", f.detail);
      return;
    case reason::peer_receive_invalid:
      out.add("the buffers of the peer's receive request failed their checks (lkey 0x%x, 0x%" PRIx64
              " + %" PRIu64 " bytes)",
              f.key, f.address, f.length);
      return;
    case reason::peer_refused:
      out.add("queue pair 0x%x refused the request with NAK 0x%x; its host has the reason",
              f.detail, f.extra);
      return;
    default:
      out.add("queue pair 0x%x sent a malformed request or answer (PSN 0x%x)", f.detail, f.extra);
  }
}

/// Adds how long the requester waited, if it gave up.
void add_patience(sentence& out, const failure& f) {
  if (f.length == 0) return;
  if (f.limit == never) return out.add("; waited %" PRIu64 " us", f.length / 1000);
  out.add("; %" PRIu64 " retries, timeout %" PRIu64 " us", f.limit, f.length / 1000);
}

const char* text_of(peer_loss why) {
  switch (why) {
    case peer_loss::no_process:
      return "no process has its number";
    case peer_loss::ended:
      return "it exited or closed its device";
    case peer_loss::other_user:
      return "it belongs to another user";
    case peer_loss::other_version:
      return "it uses another version of the device";
    case peer_loss::malformed_data:
      return "it wrote malformed data";
    case peer_loss::no_resources:
      return "this process has no free descriptors or memory";
    case peer_loss::too_many_links:
      return "it has reached the limit of connections to this process";
    case peer_loss::access_timeout:
      return "an access of it to this process's memory took too long; is it stopped?";
    case peer_loss::message_lost:
      return "this process had no memory for one of its messages";
    case peer_loss::unknown:
      break;
  }
  return "the cause is unknown";
}

void add_loss(sentence& out, const failure& f) {
  out.add("the process of queue pair 0x%x", f.detail);
  if (f.extra != 0) out.add(" (pid %u)", f.extra);
  out.add(" is gone: %s", text_of(static_cast<peer_loss>(f.key)));
}

void add_silence(sentence& out, const failure& f) {
  switch (f.why) {
    case reason::peer_unknown:
      out.add(
          "there is no queue pair 0x%x: it was destroyed, its process ended, or dest_qp_num is "
          "wrong",
          f.detail);
      return;
    case reason::peer_not_ready: {
      static constexpr const char* names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
      out.add(
          "queue pair 0x%x does not answer: it is in state %s, not yet or no longer ready to "
          "receive",
          f.detail, f.extra < 7 ? names[f.extra] : "?");
      return;
    }
    case reason::peer_not_connected:
      out.add("the peer's queue pair is connected to 0x%x, not to this one (0x%x)", f.detail,
              f.extra);
      return;
    case reason::psn_mismatch:
      out.add(
          "sequence numbers differ: sent 0x%x, the peer expects 0x%x; sq_psn of one side must "
          "be rq_psn of the other",
          f.detail, f.extra);
      return;
    case reason::peer_gone:
      add_loss(out, f);
      return;
    case reason::peer_unreachable:
      out.add("queue pair 0x%x is not on this host or its process is not reachable", f.detail);
      return;
    case reason::port_down:
      out.add("the port is down: nothing was sent to queue pair 0x%x", f.detail);
      return;
    case reason::peer_port_down:
      out.add("the port of queue pair 0x%x is down", f.detail);
      return;
    case reason::lid_mismatch:
      out.add("the request was addressed to LID %u, the peer's port has %u", f.detail, f.extra);
      if (f.detail == 0 || f.extra == 0)
        out.add(": one of the two ports is RoCE and has no LID, the other is InfiniBand");
      return;
    case reason::partition_mismatch:
      out.add(
          "the queue pairs are not in the same partition: P_Key 0x%04x here, 0x%04x at the peer; "
          "the "
          "low 15 bits must be equal, and at least one must be a full member (0x8000)",
          f.detail, f.extra);
      return;
    case reason::receiver_not_ready:
      out.add("queue pair 0x%x had no receive request posted", f.key);
      if (f.length == 0) return;
      out.add("; %u retries, RNR timer code %u (%" PRIu64 " us)", f.detail, f.extra,
              f.length / 1000);
      return;
    default:
      out.add("queue pair 0x%x did not acknowledge in time", f.detail);
  }
}

void add_drop(sentence& out, const failure& f) {
  switch (f.why) {
    case reason::path_full:
      out.add("the process of queue pair 0x%x did not read its ring within %" PRIu64 " ms",
              f.detail, f.length / 1'000'000);
      return;
    case reason::qkey_mismatch:
      out.add("the message has Q_Key 0x%x, the queue pair has 0x%x", f.detail, f.extra);
      return;
    default:
      out.add("the message came from a queue pair of transport %s; this queue pair is %s",
              transport_name(f.detail), transport_name(f.extra));
  }
}

void add_consequence(sentence& out, const failure& f) {
  switch (f.why) {
    case reason::flushed_after_error:
      out.add("flushed, because queue pair 0x%x failed earlier", f.detail);
      return;
    case reason::flushed_by_modify:
      out.add("flushed, because queue pair 0x%x was moved to the error state", f.detail);
      return;
    case reason::completion_queue_overrun:
      out.add("a completion queue of %" PRIu64 " entries overran", f.limit);
      return;
    case reason::injected_fault:
      out.add("fault rule %u of the process ended the request", f.detail);
      return;
    default:
      out.add("unknown reason 0x%x", static_cast<std::uint32_t>(f.why));
  }
}

}  // namespace

std::size_t describe(const failure& what, char* text, std::size_t capacity) noexcept {
  sentence out(text, capacity);
  switch (what.why) {
    case reason::local_key_unknown:
    case reason::local_key_other_domain:
    case reason::local_range:
    case reason::local_access_denied:
    case reason::local_not_mapped:
    case reason::remote_not_mapped:
    case reason::remote_key_unknown:
    case reason::remote_key_other_domain:
    case reason::remote_range:
    case reason::remote_access_denied:
      add_key_failure(out, what);
      break;
    case reason::message_too_long:
    case reason::atomic_length:
    case reason::no_read_depth:
    case reason::bad_work_request:
    case reason::no_address:
    case reason::receive_too_short:
    case reason::qp_access_denied:
    case reason::atomic_misaligned:
    case reason::no_responder_resources:
    case reason::peer_receive_too_short:
    case reason::peer_receive_invalid:
    case reason::bad_request:
    case reason::peer_refused:
      add_request_failure(out, what);
      break;
    case reason::peer_unknown:
    case reason::peer_not_ready:
    case reason::peer_not_connected:
    case reason::psn_mismatch:
    case reason::peer_gone:
    case reason::peer_unreachable:
    case reason::receiver_not_ready:
    case reason::no_acknowledgement:
    case reason::port_down:
    case reason::peer_port_down:
    case reason::lid_mismatch:
    case reason::partition_mismatch:
      add_silence(out, what);
      if (what.why != reason::receiver_not_ready) add_patience(out, what);
      break;
    case reason::path_full:
    case reason::qkey_mismatch:
    case reason::transport_mismatch:
      add_drop(out, what);
      break;
    default:
      add_consequence(out, what);
  }
  return out.length();
}

void failure_log::record(std::uint32_t qp_num, std::uint64_t wr_id, const failure& what) noexcept {
  const std::lock_guard lock(lock_);
  entries_[count_ % capacity_] = {.wr_id = wr_id, .qp_num = qp_num, .what = what};
  ++count_;
}

std::size_t failure_log::explain(std::uint32_t qp_num, std::uint64_t wr_id,
                                 std::uint32_t vendor_error, char* text,
                                 std::size_t capacity) const noexcept {
  const auto wanted = static_cast<reason>(vendor_error);
  const bool flushed = wanted == reason::flushed_after_error;
  failure found;
  std::uint64_t found_wr_id = 0;
  {
    const std::lock_guard lock(lock_);
    const std::uint64_t oldest = count_ > capacity_ ? count_ - capacity_ : 0;
    for (std::uint64_t i = count_; i > oldest && found.why == reason::none; --i) {
      const entry& one = entries_[(i - 1) % capacity_];
      if (one.qp_num != qp_num) continue;
      if (!flushed && (one.wr_id != wr_id || one.what.why != wanted)) continue;
      found = one.what;
      found_wr_id = one.wr_id;
    }
  }
  if (found.why == reason::none) {
    if (!flushed && wanted != reason::flushed_by_modify) return 0;
    return describe({.why = wanted, .detail = qp_num}, text, capacity);
  }
  if (!flushed) return describe(found, text, capacity);
  sentence out(text, capacity);
  out.add("flushed, because work request %" PRIu64 " of the queue pair failed earlier: ",
          found_wr_id);
  const std::size_t used = out.length();
  const bool fits = used < capacity;
  return used + describe(found, fits ? text + used : nullptr, fits ? capacity - used : 0);
}

}  // namespace verbena::softdev
