// SPDX-License-Identifier: MIT
// A provider that forwards to another one and counts the objects of the C API.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "verbena/sys/efa_table.hpp"
#include "verbena/sys/provider.hpp"

namespace verbena::testing_support {

/// Wraps a provider. At most one exists at a time; it must outlive all objects made through it. The
/// test fails if an object is destroyed that does not exist.
class counting_provider {
 public:
  explicit counting_provider(const provider& wrapped) : provider_(wrapped) {
    instance = this;
    auto& verbs = provider_.verbs;
    creates(verbs.get_device_list);
    creates(verbs.open_device);
    creates(verbs.alloc_pd);
    creates(verbs.reg_mr);
    creates(verbs.reg_mr_iova2);
    creates(verbs.create_ah);
    creates(verbs.create_srq);
    creates(verbs.create_comp_channel);
    creates(verbs.create_cq);
    creates(verbs.create_cq_ex);
    creates(verbs.create_qp);
    creates(verbs.create_qp_ex);
    if (wrapped.efa != nullptr) {
      auto efa = std::make_shared<sys::efa_table>(*wrapped.efa);
      creates(efa->create_qp_ex);
      creates(efa->create_cq);
      provider_.efa = std::move(efa);
    }
    destroys(verbs.free_device_list);
    destroys(verbs.close_device);
    destroys(verbs.dealloc_pd);
    destroys(verbs.dereg_mr);
    destroys(verbs.destroy_ah);
    destroys(verbs.destroy_srq);
    destroys(verbs.destroy_comp_channel);
    destroys(verbs.destroy_cq);
    destroys(verbs.destroy_qp);
    if (wrapped.soft_allocate == nullptr) return;
    wrapped_allocate = wrapped.soft_allocate;
    wrapped_free = wrapped.soft_free;
    provider_.soft_allocate = [](std::size_t bytes, int huge_pages) {
      void* const memory = wrapped_allocate(bytes, huge_pages);
      instance->created("memory", memory);
      return memory;
    };
    provider_.soft_free = [](void* memory) {
      instance->destroyed("verbena_soft_free", memory);
      return wrapped_free(memory);
    };
  }
  counting_provider(const counting_provider&) = delete;
  counting_provider& operator=(const counting_provider&) = delete;
  ~counting_provider() { instance = nullptr; }

  [[nodiscard]] const provider& get() const noexcept { return provider_; }

  /// Returns the verbs that created the existing objects, `ibv_alloc_pd ibv_reg_mr `; may be empty.
  [[nodiscard]] std::string live() const {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const auto& [object, maker] : live_) text += maker + " ";
    return text;
  }
  [[nodiscard]] bool is_live(std::string_view maker) const {
    return live().find(maker) != std::string::npos;
  }

 private:
  template <class Verb>
  struct thunk;

  template <sys::fixed_text Name, sys::failure Convention, class Return, class... Arguments>
  struct thunk<sys::verb<Name, Convention, Return(Arguments...)>> {
    using verb = sys::verb<Name, Convention, Return(Arguments...)>;
    static inline verb wrapped;

    static Return create(Arguments... arguments) {
      const Return made = wrapped(arguments...);
      instance->created(std::string(verb::name()), made);
      return made;
    }
    static Return destroy(Arguments... arguments) {
      const std::lock_guard lock(instance->mutex_);
      (instance->check_known(std::string(verb::name()), arguments), ...);
      if constexpr (std::is_void_v<Return>) {
        wrapped(arguments...);
        (instance->live_.erase(arguments), ...);
      } else {
        const Return status = wrapped(arguments...);
        if (status == 0) (instance->live_.erase(arguments), ...);
        return status;
      }
    }
  };

  template <class Verb>
  void creates(Verb& member) {
    thunk<Verb>::wrapped = member;
    member.set(&thunk<Verb>::create);
  }
  template <class Verb>
  void destroys(Verb& member) {
    thunk<Verb>::wrapped = member;
    member.set(&thunk<Verb>::destroy);
  }
  void created(const std::string& verb, const void* object) {
    if (object == nullptr) return;
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(live_.emplace(object, verb).second) << verb << " returned what exists";
  }
  void destroyed(const std::string& verb, const void* object) {
    const std::lock_guard lock(mutex_);
    check_known(verb, object);
    live_.erase(object);
  }
  void check_known(const std::string& verb, const void* object) {
    EXPECT_TRUE(live_.contains(object)) << verb << " is called for what does not exist";
  }

  static inline counting_provider* instance = nullptr;
  static inline verbena_soft_allocate_function wrapped_allocate = nullptr;
  static inline verbena_soft_free_function wrapped_free = nullptr;

  provider provider_;
  mutable std::mutex mutex_;
  std::map<const void*, std::string> live_;
};

}  // namespace verbena::testing_support
