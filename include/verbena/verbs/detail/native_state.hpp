// SPDX-License-Identifier: MIT
// The owner of a native object. Handles share it, and child objects keep it alive as their parent.
// It destroys the native object first and releases its parents afterwards. If the verb fails, the
// native object and its parents are kept until the process ends: to free a parent before its child
// would be worse than a leak.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "verbena/base/error.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/detail/call.hpp"
#include "verbena/verbs/ownership.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Specialised for each native type:
///   static constexpr auto destroy = &sys::verbs_table::dealloc_pd;
///   static constexpr const char* moved_from = "a moved-from protection_domain must not be used";
///   static constexpr const char* in_use = the objects that can be the cause of EBUSY;
///   using watched = the observer of its destruction (flights.hpp); optional
template <class Native>
struct native_traits;

/// Logs at debug level that `object` was created, adopted or borrowed.
void log_creation(const std::string& object, ownership owner);
/// Logs at debug level that `object` was destroyed.
void log_destruction(const std::string& object);
/// Logs that `call` refused to destroy `object`.
void report_refused_teardown(std::string_view call, const std::string& object, int code,
                             std::string_view in_use);
/// Keeps an object that could not be destroyed, and its parents, until the process ends.
void abandon(std::shared_ptr<const void> object);

/// Owns (or borrows) a native object. `Parents` is an aggregate of shared pointers.
/// Threads: immutable, except that destroy() needs exclusive access.
template <class Native, class Parents>
class native_state {
 public:
  using native_type = Native;
  using parents_type = Parents;
  using traits = native_traits<Native>;

  struct arguments {
    const verbena::provider* provider;
    Native* native;
    ownership owner;
    std::string name;  ///< for messages: `queue pair 0x11 on soft0`
    Parents parents;
  };

  explicit native_state(arguments made)
      : provider_(made.provider),
        native_(made.native),
        owner_(made.owner),
        name_(std::move(made.name)),
        parents_(std::move(made.parents)) {
    log_creation(name_, owner_);
  }
  native_state(const native_state&) = delete;
  native_state& operator=(const native_state&) = delete;
  ~native_state() {
    const verb_status status = destroy();
    if (!status.failed) return;
    report_refused_teardown(destroy_verb().name(), name_, status.code, traits::in_use);
    abandon(std::make_shared<kept>(native_, std::move(parents_)));
  }

  [[nodiscard]] const verbena::provider& provider() const noexcept { return *provider_; }
  [[nodiscard]] const sys::verbs_table& verbs() const noexcept { return provider_->verbs; }
  [[nodiscard]] Native* native() const noexcept { return native_; }
  [[nodiscard]] ownership owner() const noexcept { return owner_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const Parents& parents() const noexcept { return parents_; }

  /// Destroys the native object unless it is borrowed. After success native() is nullptr.
  [[nodiscard]] verb_status destroy() {
    if (native_ == nullptr) return {};
    if constexpr (requires { typename traits::watched; })
      traits::watched::leaves(native_, owner_ == ownership::take);
    verb_status status;
    if (owner_ == ownership::take) status = call(destroy_verb(), native_);
    if constexpr (requires { typename traits::watched; })
      status.failed ? traits::watched::stays(native_) : traits::watched::gone(native_);
    if (!status.failed) {
      native_ = nullptr;
      if (owner_ == ownership::take) log_destruction(name_);
    }
    return status;
  }
  [[nodiscard]] const auto& destroy_verb() const noexcept { return verbs().*traits::destroy; }

 private:
  using kept = std::pair<Native*, Parents>;

  const verbena::provider* provider_;
  Native* native_;
  ownership owner_;
  std::string name_;
  Parents parents_;
};

}  // namespace verbena::inline VERBENA_ABI::detail
