// SPDX-License-Identifier: MIT
// The owner of an object of the C API. Handles share it, and child objects keep it alive. The owner
// first destroys the object, then releases the parents. If the verb fails, the object and its
// parents are kept until the process ends, because a parent must not be destroyed before its child.
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

/// Properties of a type of the C API. Each type has a specialisation with these members:
///   destroy     the verb that destroys the object: `&sys::verbs_table::dealloc_pd`
///   moved_from  the message for the use of a moved-from handle
///   in_use      the objects that can be the cause of EBUSY
///   watched     optional: the observer of the destruction (`detail/in_flight.hpp`)
template <class Native>
struct native_traits;

/// Logs at debug level that `object` was created or, with ownership::borrow, borrowed.
void log_creation(const std::string& object, ownership owner);
/// Logs at debug level that `object` was destroyed.
void log_destruction(const std::string& object);
/// Logs at error level that `call` failed to destroy `object`.
void report_refused_teardown(std::string_view call, const std::string& object, int code,
                             std::string_view in_use);
/// Keeps an object that could not be destroyed, and its parents, until the process ends.
void abandon(std::shared_ptr<const void> object);

/// Owns or borrows an object of the C API. `Parents` is an aggregate of shared pointers.
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
  /// Returns the parents, for changes before other threads use the object.
  [[nodiscard]] Parents& parents() noexcept { return parents_; }

  /// Destroys the object unless it is borrowed. After success, native() is nullptr.
  [[nodiscard]] verb_status destroy() {
    if (native_ == nullptr) return {};
    if constexpr (requires { typename traits::watched; })
      traits::watched::begin_destroy(native_, owner_ == ownership::take);
    verb_status status;
    if (owner_ == ownership::take) status = call(destroy_verb(), native_);
    if constexpr (requires { typename traits::watched; })
      status.failed ? traits::watched::destroy_failed(native_)
                    : traits::watched::destroyed(native_);
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
