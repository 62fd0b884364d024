// SPDX-License-Identifier: MIT
// The records of the checker: queues, memory regions and requests in flight, guarded by one lock.
#pragma once

#ifdef VERBENA_CHECKED

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/check/memory_watch.hpp"
#include "src/check/model.hpp"
#include "src/check/ranges.hpp"
#include "verbena/base/call_site.hpp"
#include "verbena/check/detail/in_flight.hpp"

namespace verbena::inline VERBENA_ABI::detail::in_flight {

struct known_queue;

/// Identifies a region. The region and its pieces share it.
struct region_identity {};

/// The memory of a request in one registered region.
struct piece {
  memory_range range;
  std::shared_ptr<const region_identity> region;
  std::shared_ptr<const watched_memory> watched;
};

/// A request in flight.
struct posted_request {
  std::uint64_t number = 0;
  std::uint64_t id = 0;
  bool is_send = false;
  const char* operation = "";
  use how = use::source;
  bool signaled = false;
  bool fenced = false;
  call_site where = call_site::here();
  const known_queue* queue = nullptr;
  std::vector<piece> pieces;
  adapter_fiber adapter;
};
using request_queue = std::list<posted_request>;

/// A queue pair or a shared receive queue.
struct known_queue {
  queue_facts facts;
  pid_t owner = ::getpid();  ///< the process that created it
  int handles = 1;
  bool destroyed = false;  ///< its last handle destroys it; false if that handle does not own it
  bool has_failed = false;
  bool posted_elsewhere = false;
  request_queue sends;
  request_queue receives;
  /// The ids of the latest requests that a later completion implied to be complete. Their own
  /// completions may still follow, for example from another thread.
  std::deque<std::uint64_t> implied;
  /// registry::next_number when a send was last retired by a completion.
  std::uint64_t completed_before = 0;

  [[nodiscard]] request_queue& at(queue_kind which) noexcept {
    return which == queue_kind::sends ? sends : receives;
  }
  /// Records that a request is complete although its completion may still be polled. If not `all`,
  /// only the latest requests are kept.
  void imply(std::uint64_t id, bool all);
};

struct known_region {
  region_facts facts;
  std::shared_ptr<const region_identity> identity;
  std::shared_ptr<const watched_memory>
      watched;  ///< nullptr: the memory does not change, or changes cannot be detected
  int handles = 1;

  [[nodiscard]] bool has_pieces() const noexcept { return identity.use_count() > 1; }
};

/// Returns whether memory in flight is reported to a sanitizer.
[[nodiscard]] bool sanitizers_are_told();

/// A violated rule, and the location of the request or registration that it concerns.
struct finding {
  std::string rule;
  std::optional<call_site> earlier;
};
/// Creates a finding from a rule, in the words of the documents, and the details of the case.
[[nodiscard]] finding in_flight_rule(const std::string& details, std::optional<call_site> earlier,
                                     const char* rule);
/// Stops the program. Precondition: the registry's lock is not held.
[[noreturn]] void stop(const finding& found, call_site where);
/// Returns `RECV 7 of queue pair 0x11 on soft0`.
[[nodiscard]] std::string describe(const posted_request& which);
/// Returns
/// `64 bytes at 0x7f00 of memory region 0x7f00+4096 of soft0 (server.cpp:9) were unmapped`.
[[nodiscard]] std::string describe(const memory_change& change, const watched_memory& of);

/// All records of the checker. Never destroyed, since requests can be in flight until the process
/// ends.
struct registry {
  std::mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<known_queue>> queues;
  std::vector<std::unique_ptr<known_queue>> leaving;  ///< while their verb destroys them
  std::unordered_map<std::uint32_t, std::vector<known_queue*>> by_number;
  std::unordered_map<const void*, std::string> gone;  ///< the names of destroyed queues
  std::deque<const void*> oldest_gone;
  std::unordered_map<const void*, std::unique_ptr<known_region>> regions;
  std::unordered_multimap<std::uint32_t, known_region*> regions_by_key;
  std::vector<std::unique_ptr<known_region>> leaving_regions;
  range_set ranges;
  std::uint64_t next_number = 1;

  [[nodiscard]] static registry& get();
  [[nodiscard]] known_queue* find(const void* queue) noexcept;
  [[nodiscard]] known_region* find_region(const void* region) noexcept;
  void add(std::unique_ptr<known_region> region);
  [[nodiscard]] std::unique_ptr<known_region> remove(const known_region& region) noexcept;
  /// Retires a request. Returns a finding if its memory was freed.
  std::optional<finding> retire(request_queue& in, request_queue::iterator which);
  /// Retires all requests of a queue. Returns the first finding.
  std::optional<finding> retire_all(known_queue& of);
  /// Records that the device no longer accesses a piece. Returns false if the memory was freed.
  bool release(const posted_request& of, const piece& which);
};

}  // namespace verbena::inline VERBENA_ABI::detail::in_flight

#endif
