// SPDX-License-Identifier: MIT
#include "softdev/fabric/receive_short.hpp"

#include "softdev/core/queue_pair.hpp"
#include "softdev/fabric/records.hpp"

namespace verbena::softdev {
namespace {

/// The limits of a run: other threads see its completions, and get its locks, only when it ends.
constexpr std::size_t most_short_bytes = 1024;
constexpr std::uint32_t most_in_run = 32;

}  // namespace

bool short_receiver::receive(peer& from, std::span<const std::byte> bytes) noexcept {
  const auto header = records::take<records::request_header>(bytes);
  const bool is_short =
      header && header->opcode == static_cast<std::uint8_t>(opcode::send) &&
      (header->kind & ~records::signaled_bit) == static_cast<unsigned>(transport::rc) &&
      header->length == bytes.size() && !bytes.empty() && bytes.size() <= most_short_bytes;
  const bool goes_on = lock_ && is_short && header->destination_qpn == last_.destination_qpn &&
                       header->source_qpn == last_.source_qpn && from_ == &from &&
                       header->attempt == last_.attempt && taken_ < most_in_run;
  if (!goes_on) {
    end();
    if (!is_short || !begin(from, header->destination_qpn, header->source_qpn)) return false;
    last_.attempt = header->attempt;
  }
  if (!run_.take({.transport = transport::rc,
                  .pkey = header->pkey,
                  .destination_lid = header->destination_lid,
                  .source_qpn = header->source_qpn,
                  .psn = header->psn},
                 bytes)) {
    end();
    return false;
  }
  last_.psn = header->psn;
  last_.signaled |= (header->kind & records::signaled_bit) != 0;
  ++taken_;
  return true;
}

bool short_receiver::begin(peer& from, std::uint32_t destination, std::uint32_t source) noexcept {
  if (slot_of_number(source) != from.slot() || !endpoint_state::room_for_answer(from)) return false;
  queue_pair* const target = state_.home.find(destination);
  if (target == nullptr || target->transport() != transport::rc) return false;
  auto lock = try_for_a_while(target->receive_lock());
  if (!lock) return false;
  by_ = state_.connection_of(*target);
  if (by_ == nullptr || by_->to.get() != &from || by_->precedes() || by_->answer.waits ||
      !run_.begin(*target))
    return false;
  lock_ = std::move(lock);
  from_ = &from;
  last_.destination_qpn = destination;
  last_.source_qpn = source;
  last_.signaled = false;
  taken_ = 0;
  return true;
}

/// The acknowledgement must be due before a program can see a completion; otherwise the program's
/// reply could be sent first.
void short_receiver::finish() noexcept {
  if (taken_ > 0) state_.successes.add(by_->to, last_);
  run_.end();
  lock_ = {};
}

}  // namespace verbena::softdev
