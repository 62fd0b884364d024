// SPDX-License-Identifier: MIT
#include "src/check/registry.hpp"

#ifdef VERBENA_CHECKED

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/text.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/log.hpp"
#include "verbena/check/checker.hpp"

namespace verbena::inline VERBENA_ABI {
namespace detail::in_flight {
namespace {

constexpr std::size_t most_gone = 64;

std::atomic<bool> switched_off{false};

enum class wish : std::uint8_t { off, rules, on };

// Returns the setting in the environment variable VERBENA_CHECKER.
wish wanted() {
  static const wish read = [] {
    const char* const value = std::getenv("VERBENA_CHECKER");
    const std::string_view word = value == nullptr ? "" : value;
    // `sanitizers` is an earlier name of `on`.
    if (word.empty() || word == "on" || word == "sanitizers") return wish::on;
    if (word == "rules") return wish::rules;
    if (word == "off") return wish::off;
    log(log_level::warning,
        "VERBENA_CHECKER is `on`, `rules` or `off`, not `" + std::string(word) + "`");
    return wish::on;
  }();
  return read;
}

bool is_off() { return wanted() == wish::off || switched_off.load(std::memory_order_relaxed); }

template <class Visit>
void visit_requests(const registry& all, Visit visit) {
  const auto visit_queue = [&](const known_queue& queue) {
    for (const auto& each : queue.sends) visit(each);
    for (const auto& each : queue.receives) visit(each);
  };
  for (const auto& [native, queue] : all.queues) visit_queue(*queue);
  for (const auto& queue : all.leaving) visit_queue(*queue);
}

// Logs one line about the requests in flight when the process ends.
void report_at_exit() {
  registry& all = registry::get();
  std::string line;
  std::size_t count = 0;
  {
    const quiet_lock lock(all.mutex);
    visit_requests(all, [&](const posted_request& each) {
      if (each.pieces.empty()) return;
      if (++count > 3) return;
      line += (count == 1 ? ": " : "; ") + describe(each) + " (" + each.where.file() + ":" +
              std::to_string(each.where.line()) + ")";
    });
    // Code that runs later may access the memory of these requests.
    for (const auto& [native, queue] : all.queues) static_cast<void>(all.retire_all(*queue));
  }
  if (count == 0) return;
  log(log_level::warning, std::to_string(count) +
                              " work requests still use memory at process exit" + line +
                              (count > 3 ? "; …" : ""));
}

// Arranges the report for this process only: the copy of the registry in a child of fork() contains
// the parent's requests.
void report_for_this_process() {
  static const pid_t owner = ::getpid();
  static const bool arranged = std::atexit([] {
                                 if (::getpid() == owner) report_at_exit();
                               }) == 0;
  static_cast<void>(arranged);
}

// Removes the pieces of a deregistered region from all requests: the device no longer accesses it.
void drop_region(registry& all, const region_identity& region) {
  const auto drop_from = [&](request_queue& in) {
    for (posted_request& each : in)
      std::erase_if(each.pieces, [&](const piece& part) {
        if (part.region.get() != &region) return false;
        static_cast<void>(all.release(each, part));
        return true;
      });
  };
  for (const auto& [native, queue] : all.queues) {
    drop_from(queue->sends);
    drop_from(queue->receives);
  }
}

// Finds the queue or region of a C object in a list of those that are being destroyed.
template <class List>
auto of_native(List& leaving, const void* native) noexcept {
  return std::ranges::find_if(leaving,
                              [=](const auto& each) { return each->facts.native == native; });
}

// Returns the message for a region with remote access if the program has used other pages at its
// addresses since the registration; otherwise an empty text.
std::string open_and_replaced(const known_region& region) {
  if (!region.facts.is_open_to_peers || region.watched == nullptr) return {};
  const auto begin = reinterpret_cast<std::uintptr_t>(region.facts.memory);
  const auto change = region.watched->changed({begin, begin + region.facts.length});
  if (!change || !is_in_use(change->range)) return {};
  return describe(*change, *region.watched) +
         " after registration, and the program has mapped other pages at these addresses: peers "
         "still access the old pages";
}

}  // namespace

bool sanitizers_are_told() {
  static const bool told = wanted() == wish::on;
  return told;
}

registry& registry::get() {
  // The child of fork(2) gets a lock that no thread holds, and records that are complete.
  static auto* const only = [] {
    pthread_atfork([] { get().mutex.lock(); }, [] { get().mutex.unlock(); },
                   [] { get().mutex.unlock(); });
    return new registry;
  }();
  return *only;
}

known_region* registry::find_region(const void* region) noexcept {
  const auto found = regions.find(region);
  return found == regions.end() ? nullptr : found->second.get();
}

void registry::add(std::unique_ptr<known_region> region) {
  regions_by_key.emplace(region->facts.key, region.get());
  regions.emplace(region->facts.native, std::move(region));
}

std::unique_ptr<known_region> registry::remove(const known_region& region) noexcept {
  const auto [first, last] = regions_by_key.equal_range(region.facts.key);
  regions_by_key.erase(
      std::find_if(first, last, [&](const auto& each) { return each.second == &region; }));
  return std::move(regions.extract(region.facts.native).mapped());
}

known_queue* registry::find(const void* queue) noexcept {
  const auto found = queues.find(queue);
  return found == queues.end() ? nullptr : found->second.get();
}

void known_queue::imply(std::uint64_t id, bool all) {
  constexpr std::size_t most = 256;
  implied.push_back(id);
  while (!all && implied.size() > most) implied.pop_front();
}

bool registry::release(const posted_request& of, const piece& which) {
  ranges.remove(which.range, of.how, &of);
  return of.how == use::source || !sanitizers_are_told() || unpoison(which.range);
}

std::optional<finding> registry::retire(request_queue& in, request_queue::iterator which) {
  std::optional<finding> found;
  bool is_there = true;
  for (const piece& each : which->pieces) is_there = release(*which, each) && is_there;
  which->adapter.finish();
  if (!is_there) {
    const std::string details = describe(*which);
    found =
        in_flight_rule(details, which->where, "memory that a request in flight writes was freed");
  }
  in.erase(which);
  return found;
}

std::optional<finding> registry::retire_all(known_queue& of) {
  std::optional<finding> first;
  for (request_queue* each : {&of.sends, &of.receives})
    while (!each->empty()) {
      auto found = retire(*each, each->begin());
      if (!first) first = std::move(found);
    }
  return first;
}

finding in_flight_rule(const std::string& details, std::optional<call_site> earlier,
                       const char* rule) {
  return {std::string(rule) + ": " + details, earlier};
}

void stop(const finding& found, call_site where) {
  thread_local std::string kept;  // a handler that throws may keep the text
  kept = found.rule;
  contract_violation broken{.rule = kept.c_str(), .file = where.file(), .line = where.line()};
  if (found.earlier) {
    broken.earlier_file = found.earlier->file();
    broken.earlier_line = found.earlier->line();
  }
  stop_on_violation(broken);
}

std::string describe(const posted_request& which) {
  std::string text = std::string(which.operation) + " " + std::to_string(which.id) + " of " +
                     which.queue->facts.name;
  if (which.pieces.empty()) return text;
  const memory_range& first = which.pieces.front().range;
  text += ", which " + std::string(which.how == use::sink ? "writes " : "reads ") +
          std::to_string(first.end - first.begin) + " bytes at " + hexadecimal(first.begin);
  if (which.pieces.size() > 1)
    text += " and " + std::to_string(which.pieces.size() - 1) + " more slices";
  return text;
}

std::string describe(const memory_change& change, const watched_memory& of) {
  return std::to_string(change.range.end - change.range.begin) + " bytes at " +
         hexadecimal(change.range.begin) + " of " + of.name() + " were " + change.how;
}

void created(queue_facts queue) {
  if (is_off()) return;
  registry& all = registry::get();
  const quiet_lock lock(all.mutex);
  report_for_this_process();
  if (known_queue* known = all.find(queue.native)) {
    ++known->handles;
    return;
  }
  if (all.gone.erase(queue.native) != 0) std::erase(all.oldest_gone, queue.native);
  auto made = std::make_unique<known_queue>();
  made->facts = std::move(queue);
  if (!made->facts.is_shared) all.by_number[made->facts.number].push_back(made.get());
  all.queues.emplace(made->facts.native, std::move(made));
}

void begin_destroy(const void* queue, bool destroys) {
  registry& all = registry::get();
  const quiet_lock lock(all.mutex);
  known_queue* const known = all.find(queue);
  if (known == nullptr || --known->handles > 0) return;
  if (const auto same = all.by_number.find(known->facts.number); same != all.by_number.end()) {
    std::erase(same->second, known);
    if (same->second.empty()) all.by_number.erase(same);
  }
  const auto found = all.queues.find(queue);
  found->second->destroyed = destroys;
  all.leaving.push_back(std::move(found->second));
  all.queues.erase(found);
}

void destroy_failed(const void* queue) noexcept {
  registry& all = registry::get();
  const quiet_lock lock(all.mutex);
  if (known_queue* known = all.find(queue)) {  // other handles of the queue remain
    ++known->handles;
    return;
  }
  const auto found = of_native(all.leaving, queue);
  if (found == all.leaving.end()) return;
  (*found)->handles = 1;
  if (!(*found)->facts.is_shared) all.by_number[(*found)->facts.number].push_back(found->get());
  all.queues.emplace(queue, std::move(*found));
  all.leaving.erase(found);
}

namespace {
// Retires the requests of a destroyed queue. Returns a finding if their memory was freed.
std::optional<finding> forget_gone(const void* queue) {
  registry& all = registry::get();
  const quiet_lock lock(all.mutex);
  const auto found = of_native(all.leaving, queue);
  if (found == all.leaving.end()) return {};
  auto freed = all.retire_all(**found);
  if ((*found)->destroyed && all.find(queue) == nullptr &&
      all.gone.emplace(queue, (*found)->facts.name).second) {
    all.oldest_gone.push_back(queue);
    if (all.oldest_gone.size() > most_gone) {
      all.gone.erase(all.oldest_gone.front());
      all.oldest_gone.pop_front();
    }
  }
  all.leaving.erase(found);
  return freed;
}

// Retires the requests of a queue pair that was reset. Returns a finding if their memory was freed.
std::optional<finding> forget_requests(const void* queue_pair) {
  registry& all = registry::get();
  const quiet_lock lock(all.mutex);
  known_queue* const known = all.find(queue_pair);
  if (known == nullptr) return {};
  // Completions that are already in the completion queue may still be polled.
  for (const request_queue* each : {&known->sends, &known->receives})
    for (const posted_request& request : *each) known->imply(request.id, false);
  known->has_failed = false;
  return all.retire_all(*known);
}
}  // namespace

void destroyed(const void* queue) noexcept {
  if (const auto freed = forget_gone(queue)) stop(*freed, call_site::here());
}

void created(region_facts region) {
  if (is_off()) return;
  registry& all = registry::get();
  std::shared_ptr<const watched_memory> watched;  // without the lock: it may start a thread
  if (region.may_be_replaced) {
    const auto begin = reinterpret_cast<std::uintptr_t>(region.memory);
    std::string name = region.name;
    if (const auto& where = region.registered)
      name += " (" + std::string(where->file()) + ":" + std::to_string(where->line()) + ")";
    watched = watched_memory::begin({begin, begin + region.length}, std::move(name));
  }
  const quiet_lock lock(all.mutex);
  if (known_region* known = all.find_region(region.native)) {
    ++known->handles;
    return;
  }
  all.add(std::make_unique<known_region>(
      known_region{std::move(region), std::make_shared<region_identity>(), std::move(watched)}));
}

void begin_destroy_region(const void* region, bool deregisters, std::optional<call_site> where) {
  registry& all = registry::get();
  std::optional<finding> found;
  std::string replaced;
  {
    const quiet_lock lock(all.mutex);
    known_region* const known = all.find_region(region);
    if (known == nullptr || --known->handles > 0) return;
    if (deregisters && known->has_pieces()) {
      visit_requests(all, [&](const posted_request& each) {
        const bool names_it = std::ranges::any_of(
            each.pieces, [=](const piece& part) { return part.region == known->identity; });
        if (found || !names_it || each.queue->has_failed) return;
        const std::string details = known->facts.name + " is used by " + describe(each);
        found =
            in_flight_rule(details, each.where,
                           "a memory region was deregistered while a request in flight uses it");
      });
      drop_region(all, *known->identity);
    }
    if (deregisters) replaced = open_and_replaced(*known);
    all.leaving_regions.push_back(all.remove(*known));
  }
  if (!replaced.empty()) log(log_level::warning, replaced);
  // Destructors have no call site.
  if (found) stop(*found, where.value_or(call_site::here()));
}

void destroy_failed_region(const void* region) noexcept {
  registry& all = registry::get();
  const quiet_lock lock(all.mutex);
  if (known_region* known = all.find_region(region)) {
    ++known->handles;
    return;
  }
  const auto found = of_native(all.leaving_regions, region);
  if (found == all.leaving_regions.end()) return;
  (*found)->handles = 1;
  all.add(std::move(*found));
  all.leaving_regions.erase(found);
}

void destroyed_region(const void* region) noexcept {
  registry& all = registry::get();
  const quiet_lock lock(all.mutex);
  const auto found = of_native(all.leaving_regions, region);
  if (found != all.leaving_regions.end()) all.leaving_regions.erase(found);
}

void forget(const void* queue_pair) noexcept {
  if (const auto freed = forget_requests(queue_pair)) stop(*freed, call_site::here());
}

void failed(const void* queue_pair) noexcept {
  registry& all = registry::get();
  const quiet_lock lock(all.mutex);
  if (known_queue* known = all.find(queue_pair)) known->has_failed = true;
}

}  // namespace detail::in_flight

namespace check {

std::size_t requests_in_flight() noexcept {
  auto& all = detail::in_flight::registry::get();
  const detail::in_flight::quiet_lock lock(all.mutex);
  std::size_t count = 0;
  detail::in_flight::visit_requests(all, [&](const auto&) { ++count; });
  return count;
}

void switch_off() noexcept {
  detail::in_flight::switched_off.store(true, std::memory_order_relaxed);
}

void posted_elsewhere(const void* native_queue) {
  auto& all = detail::in_flight::registry::get();
  const detail::in_flight::quiet_lock lock(all.mutex);
  if (auto* known = all.find(native_queue)) known->posted_elsewhere = true;
}

}  // namespace check
}  // namespace verbena::inline VERBENA_ABI

#endif
