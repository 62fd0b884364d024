// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/calls/request_ledger.hpp"

namespace verbena::softdev::testing {
namespace {

// Closed owners whose late completions are still checked.
constexpr std::size_t most_closed = 1000;

owner_id owner_of(std::uint64_t wr_id) { return static_cast<owner_id>(wr_id >> 32U); }
std::uint32_t number_of(std::uint64_t wr_id) { return static_cast<std::uint32_t>(wr_id); }

std::string text_of(const ibv_wc& completion) {
  return "owner " + std::to_string(owner_of(completion.wr_id)) + " request " +
         std::to_string(number_of(completion.wr_id)) + " qp_num " +
         std::to_string(completion.qp_num) + " status " + std::to_string(completion.status) +
         " opcode " + std::to_string(completion.opcode);
}

}  // namespace

owner_id request_ledger::open(std::uint32_t qp_num, bool in_order) {
  const std::lock_guard lock(mutex_);
  owners_[++last_owner_] = {.qp_num = qp_num, .in_order = in_order, .open = {}};
  return last_owner_;
}

void request_ledger::close(owner_id owner) {
  forgive(owner);
  const std::lock_guard lock(mutex_);
  owners_.at(owner).closed = true;
  closed_.push_back(owner);
  if (closed_.size() <= most_closed) return;
  owners_.erase(closed_.front());
  closed_.pop_front();
}

void request_ledger::forgive(owner_id owner) {
  const std::lock_guard lock(mutex_);
  for (auto& [number, each] : owners_.at(owner).open) each.must_complete = false;
}

std::uint64_t request_ledger::post(owner_id owner, kind what) {
  const std::lock_guard lock(mutex_);
  owner_state& state = owners_.at(owner);
  state.open[++state.last] = {.what = what, .must_complete = what != kind::unsignaled_send};
  return std::uint64_t{owner} << 32U | state.last;
}

void request_ledger::take_back(std::uint64_t wr_id) {
  const std::lock_guard lock(mutex_);
  owners_.at(owner_of(wr_id)).open.erase(number_of(wr_id));
}

std::optional<std::string> request_ledger::check(owner_state& owner, std::uint32_t number,
                                                 const request& what, const ibv_wc& completion) {
  const bool is_receive = what.what == kind::receive;
  if (completion.status > IBV_WC_TM_RNDV_INCOMPLETE) return "unknown status";
  if (completion.status == IBV_WC_SUCCESS && is_receive != ((completion.opcode & IBV_WC_RECV) != 0))
    return "opcode of the other queue";
  if (completion.status == IBV_WC_SUCCESS && what.what == kind::unsignaled_send)
    return "success of an unsignaled request";
  if (owner.qp_num != 0 && completion.qp_num != owner.qp_num) return "number of another queue pair";
  if (!owner.in_order || owner.closed || !what.must_complete) return std::nullopt;
  std::uint32_t& before = is_receive ? owner.last_receive : owner.last_send;
  if (number <= before) return "completion after one of a later request";
  before = number;
  // A signaled request cannot be passed by a later one.
  for (const auto& [other, each] : owner.open) {
    if (other >= number) break;
    if (each.must_complete && (each.what == kind::receive) == is_receive)
      return "completion before one of an earlier request";
  }
  return std::nullopt;
}

std::optional<std::string> request_ledger::complete(const ibv_wc& completion) {
  const std::lock_guard lock(mutex_);
  ++totals_.completed;
  if (completion.status == IBV_WC_SUCCESS) ++totals_.succeeded;
  const auto owner = owners_.find(owner_of(completion.wr_id));
  if (owner == owners_.end()) {
    // An owner that was closed long ago.
    if (owner_of(completion.wr_id) != 0 && owner_of(completion.wr_id) < closed_.front())
      return std::nullopt;
    return "completion of an unknown owner: " + text_of(completion);
  }
  const auto found = owner->second.open.find(number_of(completion.wr_id));
  if (found == owner->second.open.end())
    return "second completion, or completion of a refused request: " + text_of(completion);
  const request what = found->second;
  owner->second.open.erase(found);
  if (const auto wrong = check(owner->second, number_of(completion.wr_id), what, completion))
    return *wrong + ": " + text_of(completion);
  return std::nullopt;
}

std::size_t request_ledger::owed(owner_id owner) const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const auto& [number, each] : owners_.at(owner).open) count += each.must_complete ? 1 : 0;
  return count;
}

request_ledger::totals request_ledger::count() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

}  // namespace verbena::softdev::testing
