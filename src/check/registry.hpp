// SPDX-License-Identifier: MIT
// What the checker knows: queues, memory regions and requests in flight, behind one lock.
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

/// Each region has one, which the pieces in it share.
struct region_identity {};

/// Memory of a request, in a region that is known.
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
  pid_t owner = ::getpid();  ///< the process that made it
  int handles = 1;
  bool destroyed = false;  ///< with its last handle; else that was borrowed
  bool has_failed = false;
  bool posted_elsewhere = false;
  request_queue sends;
  request_queue receives;
  /// Of requests that were complete because later ones were, but may have completions: another
  /// thread is about to tell. The latest few.
  std::deque<std::uint64_t> implied;

  [[nodiscard]] request_queue& at(queue_kind which) noexcept {
    return which == queue_kind::sends ? sends : receives;
  }
  /// Remembers a request that is complete, though its completion may still come.
  void imply(std::uint64_t id);
};

struct known_region {
  region_facts facts;
  std::shared_ptr<const region_identity> identity;
  std::shared_ptr<const watched_memory>
      watched;  ///< none: the memory does not change, or changes cannot be detected
  int handles = 1;

  [[nodiscard]] bool has_pieces() const noexcept { return identity.use_count() > 1; }
};

/// Whether memory in flight is reported to the sanitizer of this build, if any.
[[nodiscard]] bool sanitizers_are_told();

/// A broken rule about `earlier`.
struct finding {
  std::string rule;
  std::optional<call_site> earlier;
};
/// The rule in words that the documents list, with what is known in this case.
[[nodiscard]] finding in_flight_rule(const std::string& details, std::optional<call_site> earlier,
                                     const char* rule);
/// Stops the program. Not with the registry's lock.
[[noreturn]] void stop(const finding& found, call_site where);
/// `RECV 7 of queue pair 0x11 on soft0`.
[[nodiscard]] std::string describe(const posted_request& which);
/// `64 bytes at 0x7f00 of memory region 0x7f00+4096 of soft0 (server.cpp:9) were unmapped`.
[[nodiscard]] std::string describe(const memory_change& change, const watched_memory& of);

/// Everything. Never destroyed: requests are in flight until the process ends.
struct registry {
  std::mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<known_queue>> queues;
  std::vector<std::unique_ptr<known_queue>> leaving;  ///< while the verb destroys them
  std::unordered_map<std::uint32_t, std::vector<known_queue*>> by_number;
  std::unordered_map<const void*, std::string> gone;  ///< names of queues that were destroyed
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
  /// Retires a request; finds memory that was freed meanwhile.
  std::optional<finding> retire(request_queue& in, request_queue::iterator which);
  /// Ends that of all in the queue.
  std::optional<finding> retire_all(known_queue& of);
  /// The device no longer accesses a piece.
  bool release(const posted_request& of, const piece& which);
};

}  // namespace verbena::inline VERBENA_ABI::detail::in_flight

#endif
