// SPDX-License-Identifier: MIT
// Providers: implementations of the verbs. They are libibverbs with its drivers, and the software
// device. Each context belongs to one provider. Objects of one provider are never passed to the
// functions of another.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "verbena/base/result.hpp"
#include "verbena/base/soft_entry.hpp"
#include "verbena/sys/verbs_table.hpp"

namespace verbena::inline VERBENA_ABI {

namespace sys {
struct cm_table;
struct efa_table;
}  // namespace sys

/// The origin of a provider's functions.
enum class provider_origin : std::uint8_t {
  system,  ///< libibverbs.so.1, loaded at run time
  linked,  ///< a static libibverbs, linked into the program by the target `verbena::linked`
  soft,    ///< libverbena-soft.so: the software device
};

/// An immutable set of function tables. The providers of the library exist until the process ends;
/// any other provider must outlive every object made through it. Threads: immutable.
struct provider {
  provider_origin origin = provider_origin::system;  ///< the origin of the functions
  sys::verbs_table verbs;                            ///< the functions of libibverbs
  /// The functions of librdmacm, or nullptr. cm_functions() returns whether they can be called.
  std::shared_ptr<const sys::cm_table> cm = {};
  /// The functions of libefa, or nullptr. efa_functions() returns whether they can be called.
  std::shared_ptr<const sys::efa_table> efa = {};

  /// Functions of the software device; nullptr in other providers.
  verbena_soft_allocate_function soft_allocate = nullptr;
  verbena_soft_free_function soft_free = nullptr;                      ///< see soft_allocate
  verbena_soft_explain_function soft_explain = nullptr;                ///< see soft_allocate
  verbena_soft_inject_event_function soft_inject_event = nullptr;      ///< see soft_allocate
  verbena_soft_check_commands_function soft_check_commands = nullptr;  ///< see soft_allocate
  verbena_soft_reaches_hosts_function soft_reaches_hosts = nullptr;    ///< see soft_allocate
};

/// Returns the provider of the system's adapters: the linked libibverbs if the program has one,
/// otherwise libibverbs.so.1 (or the file that VERBENA_LIBIBVERBS names).
///
/// Errors: `unavailable`; the message names the package. Loads the library at the first call and
/// keeps it; after a failure the next call tries again. Thread-safe.
[[nodiscard]] result<const provider*> system_provider();

/// Returns the provider of the software device.
///
/// Errors: `unavailable` if libverbena-soft.so cannot be loaded or has another version. Loads the
/// library at the first call and keeps it; after a failure the next call tries again. Thread-safe.
[[nodiscard]] result<const provider*> soft_provider();

/// Returns the functions of libefa that belong to `from`. For the system provider, loads
/// libefa.so.1 (or the file that VERBENA_LIBEFA names) if it is not loaded yet.
///
/// Errors: `unavailable` if it cannot be loaded; the message names the package; `not_supported` for
/// a provider without these functions. Thread-safe.
[[nodiscard]] result<const sys::efa_table*> efa_functions(const provider& from);

/// Returns the functions of librdmacm that belong to `from`. For the system provider, loads
/// librdmacm.so.1 (or the file that VERBENA_LIBRDMACM names) if it is not loaded yet.
///
/// Errors: `unavailable` if it cannot be loaded; the message names the package; `not_supported` for
/// a provider without these functions. Thread-safe.
[[nodiscard]] result<const sys::cm_table*> cm_functions(const provider& from);

/// Returns `system`, `linked` or `soft`.
[[nodiscard]] const char* to_string(provider_origin origin) noexcept;

}  // namespace verbena::inline VERBENA_ABI
