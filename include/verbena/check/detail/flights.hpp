// SPDX-License-Identifier: MIT
// Checked builds: requests on their way to a device and back. Module verbs tells which objects
// there are, what is posted to them and what was polled; rules that are broken by it stop the
// program and name both places. Other builds have none of this. It knows no type of the C API:
// objects are their addresses.
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

namespace verbena::inline VERBENA_ABI::detail::flights {

/// Access of the device to the memory of a request.
enum class use : std::uint8_t {
  source,  ///< reads it
  sink,    ///< writes it
};

/// A piece of registered memory, as requests name it.
struct slice {
  std::uint64_t address;
  std::uint32_t length;
  std::uint32_t key;
};

/// A request that is posted.
struct request {
  std::uint64_t id = 0;
  const char* operation = "";  ///< `SEND`: for messages
  use how = use::source;
  bool signaled = false;
  bool fenced = false;  ///< begins after what earlier requests of the queue read is there
  std::vector<slice> slices;
};

/// Where requests wait for their completion.
enum class line : std::uint8_t {
  sends,            ///< of a queue pair
  receives,         ///< of a queue pair
  shared_receives,  ///< of a shared receive queue
};
struct place {
  const void* queue;  ///< the queue pair or the shared receive queue
  line which;
  const void* caller = nullptr;  ///< in whose code requests are posted: for ThreadSanitizer
};

/// A queue pair, or with `is_shared` a shared receive queue.
struct queue_facts {
  const void* native = nullptr;
  const void* context = nullptr;
  const void* domain = nullptr;
  std::string name;
  bool is_shared = false;
  std::uint32_t number = 0;               ///< of a queue pair, on its device
  const void* send_queue = nullptr;       ///< where sends complete
  const void* receive_queue = nullptr;    ///< where receives complete
  const void* shared_receives = nullptr;  ///< nullptr: it has its own
  std::optional<bool> all_signaled;       ///< nothing: not known
  bool in_order = true;            ///< a completion implies that earlier requests are complete
  std::uint32_t header_bytes = 0;  ///< in front of each message that is received
};

/// A memory region. Its slices are named by addresses from `base`; the memory lies at `memory`,
/// nullptr when this process does not see it.
struct region_facts {
  const void* native = nullptr;
  const void* context = nullptr;
  const void* domain = nullptr;
  std::uint32_t key = 0;
  std::uint64_t base = 0;
  const void* memory = nullptr;
  std::size_t length = 0;
  std::string name;
  bool may_be_replaced = false;  ///< the program's memory, of which the device keeps the pages
  bool is_open_to_peers = false;
  std::optional<call_site> registered;
};

/// The result of a poll.
struct arrival {
  std::uint64_t id = 0;
  std::optional<std::uint32_t> queue_pair;  ///< nothing: the completion queue does not tell
  std::optional<bool> is_receive;           ///< nothing: not defined, the request failed
  bool ok = false;
};

// Objects. Each may appear more than once (an adopted one that is borrowed twice); what leaves that
// often is gone. leaves() comes before the verb that destroys it; then gone(), or stays() if the
// verb refused. Thread-safe.
void appears(queue_facts queue);
void leaves(const void* queue, bool destroys);
void stays(const void* queue) noexcept;
void gone(const void* queue) noexcept;
void appears(region_facts region);
/// Stops when requests in flight name the region and `deregisters`.
void leaves_region(const void* region, bool deregisters, std::optional<call_site> where);
void stays_region(const void* region) noexcept;
void gone_region(const void* region) noexcept;

/// The queue pair forgot its requests (reset). Thread-safe.
void forget(const void* queue_pair) noexcept;
/// The queue pair is in error, and the program knows. Thread-safe.
void failed(const void* queue_pair) noexcept;

/// Numbers of requests that were noted: `first`, and those up to `end`.
struct numbers {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};
/// Notes requests that are about to be posted; stops when they break a rule. Thread-safe.
numbers depart(place at, std::span<const request> posted, call_site where);
/// These were not accepted. Stops when `is_full` and no completion will ever make room.
/// Thread-safe.
void refuse(place at, numbers which, bool is_full, call_site where);
/// Nothing was polled from `completion_queue`, because the device refused. Thread-safe.
void look(const void* completion_queue, call_site where);
/// Retires the requests of completions polled from `completion_queue` of `context`. Thread-safe.
void arrive(const void* context, const void* completion_queue, std::span<const arrival> polled,
            call_site where);

}  // namespace verbena::inline VERBENA_ABI::detail::flights

#endif
