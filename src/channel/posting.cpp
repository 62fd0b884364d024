// SPDX-License-Identifier: MIT
// Checks and posts operations.
#include <cerrno>

#include "src/channel/connection_record.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/channel/operation_scope.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

constexpr std::size_t atomic_bytes = 8;

int code_of(refusal why) noexcept {
  switch (why) {
    case refusal::queue_full:
      return ENOMEM;
    case refusal::not_connected:
      return ENOTCONN;
    default:
      return EINVAL;
  }
}

bool is_atomic(operation_kind kind) noexcept {
  return kind == operation_kind::compare_and_swap || kind == operation_kind::fetch_and_add;
}

// Returns the kind for counting: a write with immediate data counts as a message.
operation_kind counted_kind(const operation_description& what) noexcept {
  return what.kind == operation_kind::write && what.options.immediate
             ? operation_kind::write_with_immediate
             : what.kind;
}

}  // namespace

template <class Piece>
refusal channel_core::gather(std::span<const Piece> pieces, std::size_t most) noexcept {
  pieces_.clear();
  if (pieces.size() > most) return refusal::too_many_slices;
  for (const Piece& piece : pieces) {
    const local_slice slice = piece.slice();  // stops the program if a sink is posted twice
    if (piece.domain() != domain_.native()) return refusal::foreign_domain;
    pieces_.push_back(slice);
  }
  return refusal::none;
}

std::size_t channel_core::most_pieces(operation_kind kind) const noexcept {
  if (kind == operation_kind::receive) return options_.queues.max_recv_sge;
  return kind == operation_kind::read ? max_read_sge_ : options_.queues.max_send_sge;
}

refusal channel_core::check(const operation_description& what) noexcept {
  const bool receives = what.kind == operation_kind::receive;
  if (!queue_ || record_->failure) return refusal::not_connected;
  if (free_[receives] == 0) return refusal::queue_full;
  const bool reads_memory = what.kind == operation_kind::send || what.kind == operation_kind::write;
  const std::size_t most = most_pieces(what.kind);
  const refusal why = what.piece != nullptr ? gather(std::span(what.piece, 1), most)
                      : reads_memory        ? gather(what.out.sources(), most)
                                            : gather(what.in, most);
  if (why != refusal::none || receives || what.kind == operation_kind::send) return why;
  std::uint64_t bytes = 0;
  if (what.out.inlined() != nullptr) bytes = what.out.inlined()->length();
  for (const local_slice& piece : pieces_) bytes += piece.length();
  if (is_atomic(what.kind) &&
      (pieces_.size() != 1 || bytes != atomic_bytes || what.remote.address() % atomic_bytes != 0))
    return refusal::atomic_shape;
  return bytes > what.remote.length() ? refusal::remote_bounds : refusal::none;
}

post_status channel_core::submit(const operation_description& what, std::uint64_t id) {
  const std::span<const local_slice> pieces(pieces_);
  if (what.kind == operation_kind::receive) return queue_->post_receive({.id = id}, pieces);
  auto batch = queue_->start_send<1>();
  const send_request request{.id = id,
                             .signaled = true,
                             .fenced = what.options.fenced,
                             .solicited = what.options.solicited};
  const auto with_data = [&](auto&& add) {
    if (what.out.inlined() != nullptr) {
      add(*what.out.inlined());
    } else {
      add(pieces);
    }
  };
  switch (what.kind) {
    case operation_kind::send:
      with_data([&](auto& data) {
        if (what.options.immediate) {
          batch.send_with_immediate(request, *what.options.immediate, data);
        } else {
          batch.send(request, data);
        }
      });
      break;
    case operation_kind::write:
      with_data([&](auto& data) {
        if (what.options.immediate) {
          batch.write_with_immediate(request, *what.options.immediate, data, what.remote);
        } else {
          batch.write(request, data, what.remote);
        }
      });
      break;
    case operation_kind::read:
      batch.read(request, pieces, what.remote);
      break;
    case operation_kind::compare_and_swap:
      batch.compare_and_swap(request, pieces.front(), what.remote,
                             {.expected = what.expected_or_addend, .desired = what.desired});
      break;
    case operation_kind::fetch_and_add:
      batch.fetch_and_add(request, pieces.front(), what.remote, what.expected_or_addend);
      break;
    case operation_kind::receive:
    case operation_kind::write_with_immediate:
      break;  // receives return above; writes with immediate data have kind write here
  }
  return batch.submit();
}

bool channel_core::post(const operation_description& what, queued_waiter& waiter) {
  const auto refuse = [&](refusal why, int code) {
    waiter.result = operation_result::refuse(why, code, waiter.result.posted());
    waiter.ended = true;
    return false;
  };
  if (!queue_) [[unlikely]] {
    if (const int code = try_first_use(deadline::never()); code != 0)
      return refuse(refusal::connect_failed, code);
  }
  if (const refusal why = check(what); why != refusal::none) [[unlikely]]
    return refuse(why, code_of(why));
  queued_line& line = lines_[what.kind == operation_kind::receive];
  if (const post_status status = submit(what, line.next_id()); !status) [[unlikely]] {
    waiter.result = operation_result::refuse_post(what.kind, status.code(), waiter.result.posted());
    waiter.ended = true;
    return false;
  }
  waiter.kind = counted_kind(what);
  line.push(waiter);
  ++posted_[static_cast<std::size_t>(waiter.kind)];
  return true;
}

operation_slot* channel_core::post(const operation_description& what,
                                   const operation_interest& who) {
  const auto refuse = [&](refusal why, int code) -> operation_slot* {
    who.waiter->result = operation_result::refuse(why, code, who.posted);
    who.waiter->ended = true;
    return nullptr;
  };
  if (who.scope != nullptr && who.scope->limit().has_passed()) [[unlikely]]
    return refuse(refusal::limit_passed, ETIMEDOUT);
  if (!queue_) [[unlikely]] {
    const deadline until = who.scope != nullptr ? who.scope->limit().when() : who.until;
    if (const int code = try_first_use(until); code != 0)
      return refuse(refusal::connect_failed, code);
  }
  if (const refusal why = check(what); why != refusal::none) [[unlikely]]
    return refuse(why, code_of(why));
  operation_table& table = slots_.table();
  operation_slot& slot = table.take(*this);
  if (const post_status status = submit(what, slot.id); !status) [[unlikely]] {
    table.put(slot);
    who.waiter->result = operation_result::refuse_post(what.kind, status.code(), who.posted);
    who.waiter->ended = true;
    return nullptr;
  }
  take_place(slot, counted_kind(what), who.posted);
  ++posted_[static_cast<std::size_t>(slot.kind)];
  slot.waiter = who.waiter;
  slot.scope = who.scope;
  slot.has_buffer = who.has_buffer;
  if (slot.scope != nullptr) {
    ++slot.scope->in_flight_;
    if (what.out.inlined() == nullptr && !pieces_.empty())
      slot.use(pieces_.front());
    else
      slot.key = local_key();
  }
  return &slot;
}

}  // namespace verbena::inline VERBENA_ABI::detail
