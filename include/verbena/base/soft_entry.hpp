// SPDX-License-Identifier: MIT
// The interface between the library and the software device. libverbena-soft.so exports one C
// function, `verbena_soft_entry`, which returns the functions of the device by name. The name is
// that of the implemented C function (`ibv_alloc_pd`), or begins with `verbena_soft_`. The library
// fills its function tables by name, from this list or by dlsym(3) from the system's libibverbs.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// Names a function of the device.
struct verbena_soft_function {
  const char* name;    ///< a name of the C API, or one that begins with `verbena_soft_`
  void (*function)();  ///< must be cast to the type of the function
};

/// Lists all functions of the device. Exists until the process ends.
struct verbena_soft_functions {
  std::uint32_t abi;    ///< verbena::soft_abi with which the device was built
  std::uint32_t count;  ///< the number of elements of `functions`
  const struct verbena_soft_function* functions;  ///< sorted by name
};

/// Type of `verbena_soft_entry`. Returns nullptr if the device does not support `abi`.
/// Thread-safe; starts no thread.
typedef const struct verbena_soft_functions* (*verbena_soft_entry_function)(std::uint32_t abi);

struct ibv_device;
/// Type of `verbena_soft_device`. Returns the handle of the device, even if the device is not
/// listed. An object belongs to the software device if the device of its context is this handle.
/// Thread-safe.
typedef struct ibv_device* (*verbena_soft_device_function)(void);
/// Type of `verbena_soft_allocate`. Allocates memory that peers on this host can map: page-aligned,
/// zeroed, from a sealed memfd. If `huge_pages` is not 0, uses huge pages, and fails with ENOMEM if
/// too few are free. On failure, returns nullptr and sets errno.
typedef void* (*verbena_soft_allocate_function)(std::size_t bytes, int huge_pages);
/// Type of `verbena_soft_free`. Frees memory of `verbena_soft_allocate`. Returns 0 or an errno:
/// EBUSY if a memory region uses the memory.
typedef int (*verbena_soft_free_function)(void* memory);
/// Type of `verbena_soft_explain`. Describes why a work request failed: the check, the key and the
/// values. With `vendor_err` 0, describes the packets that the queue pair dropped. With `qp_num` 0,
/// which no queue pair has, describes the code in four lines: its name, the completion statuses
/// with which it appears, the check that failed, and the remedy. With `qp_num` 0 and `vendor_err`
/// EOPNOTSUPP, describes the last call of this thread that failed with EOPNOTSUPP: the function,
/// the argument, the reason, and the remedy. Writes at most `capacity` bytes with a terminating
/// zero to `text`. Returns the length of the whole description like snprintf(3), or 0 if there is
/// no description.
typedef std::size_t (*verbena_soft_explain_function)(std::uint32_t qp_num, std::uint64_t wr_id,
                                                     std::uint32_t vendor_err, char* text,
                                                     std::size_t capacity);
struct ibv_context;
/// Type of `verbena_soft_inject_event`. Injects events and faults into the device of this process.
/// Events are raised on all open contexts. For tests and demonstrations. `commands` are one or more
/// commands separated by semicolons or line ends, or `@FILE`; docs/guide/faults.md has the grammar.
/// The calling thread executes the commands before the first duration. A thread of the device
/// executes all later commands.
///
/// Returns 0; EINVAL for an invalid text, of which no command is executed, or for a value that the
/// device does not have; ENOENT if the object of a command or the file does not exist; ENODEV in a
/// forked child. Logs why a text is invalid. Thread-safe; a thread with an open batch must not call
/// it.
typedef int (*verbena_soft_inject_event_function)(struct ibv_context* context,
                                                  const char* commands);
/// Type of `verbena_soft_reaches_hosts`. Returns 1 if a queue pair with this entry of the GID table
/// as source reaches other hosts: `VERBENA_SOFTDEV_WIRE` permits the address, and an interface has
/// it. Otherwise returns 0. Asks the kernel for the name of the interface. Thread-safe.
typedef int (*verbena_soft_reaches_hosts_function)(struct ibv_context* context,
                                                   std::uint8_t port_num, int gid_index);
/// Type of `verbena_soft_check_commands`. Describes why a text for `verbena_soft_inject_event` is
/// invalid: line, column and the permitted values. Writes at most `capacity` bytes with a
/// terminating zero to `text`. Returns the length of the whole description like snprintf(3), or 0
/// if the text is valid. Thread-safe.
typedef std::size_t (*verbena_soft_check_commands_function)(const char* commands, char* text,
                                                            std::size_t capacity);
}

namespace verbena {
/// The version of this interface. The version is incremented when an existing function changes its
/// meaning.
inline constexpr std::uint32_t soft_abi = 1;
}  // namespace verbena
