// SPDX-License-Identifier: MIT
// Checked builds: the requests in flight. Module verbs reports the objects, the posted requests and
// the polled completions. If a rule is violated, the program stops, and the message contains both
// source locations. Other builds do not contain this header. The interface has no types of the C
// API: an object is identified by its address.
#pragma once

#include "verbena/base/config.hpp"

#ifdef VERBENA_CHECKED

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verbena/base/call_site.hpp"

namespace verbena::inline VERBENA_ABI::detail::in_flight {

/// Access of the device to the memory of a request.
enum class use : std::uint8_t {
  source,  ///< reads it
  sink,    ///< writes it
};

/// A scatter/gather element of a request.
struct slice {
  std::uint64_t address;
  std::uint32_t length;
  std::uint32_t key;
};

/// A request that is posted.
struct request {
  std::uint64_t id = 0;
  const char* operation = "";  ///< the name for messages, such as `SEND`
  use how = use::source;
  bool signaled = false;
  bool fenced = false;  ///< starts after earlier reads and atomics of the queue
  std::vector<slice> slices;
};

/// The kind of queue that holds a request until its completion.
enum class queue_kind : std::uint8_t {
  sends,            ///< of a queue pair
  receives,         ///< of a queue pair
  shared_receives,  ///< of a shared receive queue
};
/// A queue, and the code that posts to it.
struct place {
  const void* queue;  ///< the queue pair or the shared receive queue
  queue_kind which;
  const void* caller = nullptr;  ///< the return address of the posting code, for ThreadSanitizer
};

/// A queue pair, or with `is_shared` a shared receive queue.
struct queue_facts {
  const void* native = nullptr;
  const void* context = nullptr;
  const void* domain = nullptr;
  std::string name;
  bool is_shared = false;
  std::uint32_t number = 0;               ///< of a queue pair
  const void* send_queue = nullptr;       ///< the completion queue of send requests
  const void* receive_queue = nullptr;    ///< the completion queue of receives
  const void* shared_receives = nullptr;  ///< the SRQ; nullptr: none
  std::optional<bool> all_signaled;       ///< nullopt: unknown
  bool in_order = true;            ///< a completion implies that earlier requests are complete
  std::uint32_t header_bytes = 0;  ///< in front of each message that is received
};

/// A memory region. Requests address it from `base`. This process maps it at `memory`; if it does
/// not map the memory, `memory` is nullptr.
struct region_facts {
  const void* native = nullptr;
  const void* context = nullptr;
  const void* domain = nullptr;
  std::uint32_t key = 0;
  std::uint64_t base = 0;
  const void* memory = nullptr;
  std::size_t length = 0;
  std::string name;
  bool may_be_replaced = false;  ///< pinned memory of the program
  bool is_open_to_peers = false;
  std::optional<call_site> registered;
};

/// A polled completion.
struct polled_completion {
  std::uint64_t id = 0;
  std::optional<std::uint32_t> queue_pair;  ///< nullopt: the queue has no such field
  std::optional<bool> is_receive;           ///< nullopt: undefined, the request failed
  bool ok = false;
};

// Objects. An object that is adopted twice is created twice, and is removed when both handles are
// destroyed. begin_destroy() is called before the verb that destroys the object. Then destroyed()
// is called or, if the verb failed, destroy_failed(). Thread-safe.
void created(queue_facts queue);
void begin_destroy(const void* queue, bool destroys);
void destroy_failed(const void* queue) noexcept;
void destroyed(const void* queue) noexcept;
void created(region_facts region);
/// Stops the program if `deregisters` and a request in flight uses the region.
void begin_destroy_region(const void* region, bool deregisters, std::optional<call_site> where);
void destroy_failed_region(const void* region) noexcept;
void destroyed_region(const void* region) noexcept;

/// Records that a queue pair was reset, which discards its requests. Thread-safe.
void forget(const void* queue_pair) noexcept;
/// Records that the program moved a queue pair to the error state. Thread-safe.
void failed(const void* queue_pair) noexcept;

/// The numbers of recorded requests: [`first`, `end`).
struct numbers {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};
/// Records requests before they are posted. Stops the program if they violate a rule. Thread-safe.
numbers add(place at, std::span<const request> posted, call_site where);
/// Removes requests that the device did not accept. Stops the program if the queue `is_full` and no
/// completion can free an entry. Thread-safe.
void remove(place at, numbers which, bool is_full, call_site where);
/// Records that polling `completion_queue` failed. Thread-safe.
void poll_failed(const void* completion_queue, call_site where);
/// Removes the requests of completions polled from `completion_queue` of `context`. Thread-safe.
void complete(const void* context, const void* completion_queue,
              std::span<const polled_completion> polled, call_site where);

}  // namespace verbena::inline VERBENA_ABI::detail::in_flight

#endif
