// SPDX-License-Identifier: MIT
// Who executes verbs: the system's libibverbs with its drivers, or the software device. Every
// context refers to one provider; objects of one provider are never handed to another.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/result.hpp"
#include "verbena/base/soft_entry.hpp"
#include "verbena/sys/cm_table.hpp"
#include "verbena/sys/efa_table.hpp"
#include "verbena/sys/verbs_table.hpp"

namespace verbena::inline VERBENA_ABI {

/// Where a provider's functions come from.
enum class provider_origin : std::uint8_t {
  system,  ///< libibverbs.so.1, loaded at run time
  linked,  ///< a static libibverbs, linked into the program by the target `verbena::linked`
  soft,    ///< libverbena-soft.so: the software device
};

/// An immutable set of function tables. Providers of the process live for ever; a wrapping one must
/// outlive every object made through it. Threads: immutable.
struct provider {
  provider_origin origin = provider_origin::system;  ///< where the functions come from
  sys::verbs_table verbs;                            ///< the functions of libibverbs
  sys::cm_table cm;    ///< those of librdmacm; ask cm_functions() whether they can be called
  sys::efa_table efa;  ///< those of libefa; ask efa_functions() whether they can be called

  /// What only the software device has; nullptr elsewhere.
  verbena_soft_allocate_function soft_allocate = nullptr;
  verbena_soft_free_function soft_free = nullptr;        ///< the same
  verbena_soft_explain_function soft_explain = nullptr;  ///< the same
  verbena_soft_provoke_function soft_provoke = nullptr;  ///< the same
};

/// The provider of the system's adapters: the linked libibverbs if the program has one, else
/// libibverbs.so.1 (or VERBENA_LIBIBVERBS). Errors: `unavailable`; the message names the package.
/// Thread-safe; loads at the first call and remembers success.
[[nodiscard]] result<const provider*> system_provider();

/// The software device's provider. Errors: `unavailable` when libverbena-soft.so cannot be loaded
/// or is of another version. Thread-safe; loads at the first call and remembers success.
[[nodiscard]] result<const provider*> soft_provider();

/// The functions of libefa that go with `from`. The system provider loads libefa.so.1 (or
/// VERBENA_LIBEFA) now, if nobody did. Errors: `unavailable` when it cannot be loaded; the message
/// names the package; `not_supported` for a provider that came without them. Thread-safe.
[[nodiscard]] result<const sys::efa_table*> efa_functions(const provider& from);

/// The functions of librdmacm that go with `from`. The system provider loads librdmacm.so.1 (or
/// VERBENA_LIBRDMACM) now, if nobody did. Errors: `unavailable` when it cannot be loaded; the
/// message names the package; `not_supported` for a provider that came without them. Thread-safe.
[[nodiscard]] result<const sys::cm_table*> cm_functions(const provider& from);

/// `system`, `linked`, `soft`.
[[nodiscard]] const char* to_string(provider_origin origin) noexcept;

}  // namespace verbena::inline VERBENA_ABI
