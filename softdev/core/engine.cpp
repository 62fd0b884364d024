// SPDX-License-Identifier: MIT
#include "softdev/core/engine.hpp"

#include "softdev/core/queue_pair_block.hpp"

#include <array>
#include <cerrno>
#include <new>
#include <optional>
#include <span>
#include <string>

#include "softdev/core/spin_wait.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::softdev {
namespace {

error not_created(const std::string& text) {
  return error::invalid_argument("ibv_create_qp", "software device", text);
}

result<void> check(const queue_pair_options& options) {
  if (options.send_queue == nullptr || options.receive_queue == nullptr)
    return not_created("a completion queue is missing");
  const auto& c = options.capabilities;
  const struct {
    const char* name;
    std::uint32_t value;
    std::uint32_t limit;
  } limited[] = {{"max_send_wr", c.max_send_wr, limits::max_work_requests},
                 {"max_recv_wr", c.max_receive_wr, limits::max_work_requests},
                 {"max_send_sge", c.max_send_sge, limits::max_sges},
                 {"max_recv_sge", c.max_receive_sge, limits::max_sges},
                 {"max_inline_data", c.max_inline_bytes, limits::max_inline_bytes}};
  for (const auto& [name, value, limit] : limited)
    if (value > limit)
      return not_created(std::string(name) + " " + std::to_string(value) + " > device max " +
                         std::to_string(limit));
  return {};
}

/// Checks the rules for every registration.
result<void> check(const memory_region& region, const char* call) {
  const auto base = reinterpret_cast<std::uintptr_t>(region.base);
  const auto refuse = [call](const char* text) {
    return error::invalid_argument(call, "software device", text);
  };
  if (base + region.length < base || region.iova + region.length < region.iova)
    return refuse("the range wraps around the end of the address space");
  const bool remote =
      !(region.rights & (access_flags(access::remote_write) | access_flags(access::remote_atomic)))
           .empty();
  if (remote && !region.rights.contains(access::local_write))
    return refuse("remote write and remote atomic access need local write access");
  return {};
}

}  // namespace

engine::engine(const engine_options& options)
    : options_(options),
      routes_(options.process_slot, options.remote),
      queue_pairs_(new std::atomic<queue_pair*>[limits::queue_pair_indices]()),
      numbers_(options.process_slot) {
  VERBENA_ASSERT(options.clock != nullptr, "an engine is given a clock");
  VERBENA_ASSERT(options.process_slot < slot_count, "a process slot is less than 3904");
}

engine::~engine() {
  VERBENA_ASSERT(numbers_.in_use() == 0, "queue pairs are destroyed before their engine");
}

result<queue_pair*> engine::create(const queue_pair_options& options) {
  VERBENA_TRY_VOID(check(options));
  const std::lock_guard lock(creation_);
  timers_.reserve(numbers_.in_use() + 1);
  const std::optional<std::uint32_t> number = numbers_.take();
  if (!number)
    return error::from_errno(ENOMEM, "ibv_create_qp", "software device",
                             "the process has " + std::to_string(numbers_.limit()) +
                                 " queue pairs, the limit of the device (max_qp)");
  queue_pair_options numbered = options;
  numbered.index = numbers_.taken();
  queue_pair* created = nullptr;
  try {
    created = queue_pair_block::create(*this, *number, numbered);
    if (created != nullptr)
      for (const fault_rule& each : faults_.rules) created->sender().add_fault(each);
  } catch (const std::bad_alloc&) {
    if (created != nullptr) queue_pair_block::destroy(created);
    numbers_.give_back(*number);
    throw;
  }
  if (created == nullptr) {
    numbers_.give_back(*number);
    return error::from_errno(ENOMEM, "ibv_create_qp", "software device", "out of memory");
  }
  queue_pairs_[index_of_number(*number)].store(created);
  return created;
}

void engine::withdraw(queue_pair& which) noexcept {
  {
    const std::lock_guard send(which.send_lock());
    const std::lock_guard receive(which.receive_lock());
    if (auto* path = remote()) path->changed(which, true);
    which.detach();
  }
  if (auto* path = remote()) path->fence();
}

void engine::destroy(queue_pair* which, void (*withdrawn)(void* owner)) noexcept {
  const std::uint32_t number = which->number();
  const std::uint32_t index = index_of_number(number);
  VERBENA_ASSERT(find(which->number()) == which, "a queue pair is destroyed by its engine, once");
  queue_pairs_[index].store(nullptr);
  epoch_.synchronize();
  withdraw(*which);
  if (withdrawn != nullptr) {
    withdrawn(which->options().owner);
    withdraw(*which);  // the program may have used it meanwhile
  }
  queue_pair_block::destroy(which);
  timers_.cancel(index);
  const std::lock_guard lock(creation_);
  numbers_.give_back(number);
}

/// Calls `action` with the send lock of the queue pair with this index held, if there is one. Waits
/// for the lock outside the epoch: the thread that holds the lock may wait for readers of the
/// epoch, for instance by deregistering memory in an open batch.
template <class Action>
void engine::with_send_lock(std::uint32_t index, Action action) {
  spin_wait pause;
  while (queue_pairs_[index].load() != nullptr) {
    {
      const access_epoch::guard inside(epoch_);
      queue_pair* const which = queue_pairs_[index].load();
      if (which == nullptr) return;
      if (const std::unique_lock send(which->send_lock(), std::try_to_lock); send)
        return action(*which);
    }
    pause.once();
  }
}

template <class Action>
void engine::for_each_send_side(Action action) {
  for (std::uint32_t i = 0; i < limits::queue_pair_indices; ++i) with_send_lock(i, action);
}

void engine::add_fault(fault_rule rule) {
  const std::lock_guard command(fault_commands_);
  std::uint32_t taken = 0;
  {
    const std::lock_guard lock(creation_);
    rule.number = ++faults_.added;
    faults_.rules.push_back(rule);
    taken = numbers_.taken();
  }
  for_each_send_side([&](queue_pair& each) {
    // Later queue pairs were created with the rule.
    if (each.options().index <= taken) each.sender().add_fault(rule);
  });
}

void engine::remove_faults() {
  const std::lock_guard command(fault_commands_);
  {
    const std::lock_guard lock(creation_);
    faults_.rules.clear();
  }
  for_each_send_side([](queue_pair& each) { each.sender().remove_faults(); });
}

queue_pair* engine::find(std::uint32_t qp_num) const noexcept {
  queue_pair* found = queue_pairs_[index_of_number(qp_num)].load();
  return found != nullptr && found->number() == qp_num ? found : nullptr;
}

result<std::uint32_t> engine::register_region(const memory_region& region) {
  VERBENA_TRY_VOID(check(region, "ibv_reg_mr"));
  const std::uint32_t key = regions_.add(region);
  if (key == 0)
    return error::from_errno(ENOMEM, "ibv_reg_mr", "software device",
                             "all memory regions are in use");
  return key;
}

bool engine::deregister_region(std::uint32_t key) noexcept {
  if (!regions_.invalidate(key)) return false;
  epoch_.synchronize();
  regions_.release(key);
  return true;
}

result<void> engine::replace_region(std::uint32_t key, const memory_region& region) {
  VERBENA_TRY_VOID(check(region, "ibv_rereg_mr"));
  if (!regions_.invalidate(key))
    return error::invalid_argument("ibv_rereg_mr", "software device", "the key is not registered");
  epoch_.synchronize();
  regions_.restore(key, region);
  return {};
}

void engine::wake() noexcept {
  if (options_.observer != nullptr) options_.observer->wake();
}

void engine::ring(const queue_pair& which) noexcept {
  if (rung_.insert(index_of_number(which.number()))) wake();
}

void engine::schedule(const queue_pair& which, time_ns when) noexcept {
  if (timers_.schedule(index_of_number(which.number()), when)) wake();
}

void engine::resume(std::uint32_t qp_num) noexcept {
  with_send_lock(index_of_number(qp_num), [&](queue_pair& which) {
    if (which.number() != qp_num) return;
    which.sender().resume();
    ring(which);
  });
}

time_ns engine::next_deadline() const noexcept { return rung_.empty() ? timers_.earliest() : 0; }

bool engine::progress() noexcept {
  bool worked = false;
  const auto visit = [&](std::uint32_t index) { worked |= run(index); };
  if (!rung_.empty()) {
    const access_epoch::guard inside(epoch_);
    rung_.drain(visit);
  }
  const time_ns deadline = timers_.earliest();
  if (deadline != never && now() >= deadline) {
    const access_epoch::guard inside(epoch_);
    std::array<std::uint32_t, 64> due;
    const time_ns reached = now();
    // Runs each queue pair at most once: one that is due again at once waits for the next call.
    for (std::size_t left = limits::queue_pair_indices; left >= due.size(); left -= due.size()) {
      const std::size_t count = timers_.take_due(reached, due);
      for (const std::uint32_t index : std::span(due).first(count)) visit(index);
      if (count < due.size()) break;
    }
  }
  return worked;
}

/// Runs the queue pair with this index. If one of its locks is taken, the queue pair stays due.
bool engine::run(std::uint32_t index) noexcept {
  queue_pair* which = queue_pairs_[index].load();
  if (which == nullptr) return false;
  if (which->run()) return true;
  ring(*which);
  return false;
}

std::size_t engine::explain(std::uint32_t qp_num, std::uint64_t wr_id, std::uint32_t vendor_error,
                            char* text, std::size_t capacity) noexcept {
  if (vendor_error == 0) {
    const access_epoch::guard inside(epoch_);
    queue_pair* which = find(qp_num);
    return (which != nullptr ? which->diagnosis().drops : drops_).describe(text, capacity);
  }
  return failures_.explain(qp_num, wr_id, vendor_error, text, capacity);
}

}  // namespace verbena::softdev
