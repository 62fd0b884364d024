// SPDX-License-Identifier: MIT
// The seam between the library and the software device: libverbena-soft.so exports one C function,
// `verbena_soft_entry`, that returns the device's functions by name. The names are those of the C
// API they implement (`ibv_alloc_pd`) or begin with `verbena_soft_`. The same names fill the
// library's tables whether they come from here or from dlsym on the system's libibverbs.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// One function of the device, cast to a plain function pointer.
struct verbena_soft_function {
  const char* name;    ///< as in the C API, or beginning with `verbena_soft_`
  void (*function)();  ///< to be cast to its own type
};

/// All functions of the device, sorted by name. Lives as long as the process.
struct verbena_soft_functions {
  std::uint32_t abi;                              ///< verbena::soft_abi of the device
  std::uint32_t count;                            ///< entries of `functions`
  const struct verbena_soft_function* functions;  ///< sorted by name
};

/// The type of `verbena_soft_entry`. Returns nullptr when the device does not speak `abi`.
/// Thread-safe; starts no thread.
typedef const struct verbena_soft_functions* (*verbena_soft_entry_function)(std::uint32_t abi);

struct ibv_device;
/// `verbena_soft_device`: the device's handle, whether it is listed or not. An object is the
/// device's when its context's device is this one. Thread-safe.
typedef struct ibv_device* (*verbena_soft_device_function)(void);
/// `verbena_soft_allocate`: memory that peers on this host can map: page-aligned, zeroed, from a
/// sealed memfd. `huge_pages` asks for huge pages and fails with ENOMEM when there are none.
/// Returns nullptr and sets errno on failure.
typedef void* (*verbena_soft_allocate_function)(std::size_t bytes, int huge_pages);
/// `verbena_soft_free`: gives such memory back; 0 or an errno. EBUSY while a region uses it.
typedef int (*verbena_soft_free_function)(void* memory);
/// `verbena_soft_explain`: why a completion failed, in words: which check, on which key, with which
/// numbers. With `vendor_err` 0: what was dropped at the queue pair. Writes `capacity` bytes at
/// most into `text`, with a zero; returns the whole length (as snprintf), 0 if nothing is known.
typedef std::size_t (*verbena_soft_explain_function)(std::uint32_t qp_num, std::uint64_t wr_id,
                                                     std::uint32_t vendor_err, char* text,
                                                     std::size_t capacity);
struct ibv_context;
/// `verbena_soft_provoke`: makes something happen to the device, in this process, and raises its
/// asynchronous event on all open contexts. For tests and demonstrations. `command` is one of:
/// `port 1 down`, `port 1 up`, `gid-change` (the addresses are read again), `gid-move` (they are at
/// other indexes), `lid-change N`,
/// `pkey-change` (the table as at first) or `pkey-change INDEX P_KEY`, `sm-change`,
/// `client-reregister`, `speed-change`, `device-fatal` (the open contexts work no more), `clock N`
/// (the device's clock shows N now; no event). 0, EINVAL for other text, or ENODEV in a forked
/// child. Thread-safe, but not from a thread with an open batch.
typedef int (*verbena_soft_provoke_function)(struct ibv_context* context, const char* command);
}

namespace verbena {
/// The version of this seam; changed when an existing name changes its meaning.
inline constexpr std::uint32_t soft_abi = 1;
}  // namespace verbena
