// SPDX-License-Identifier: MIT
#include "verbena/sys/provider.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <string_view>
#include <type_traits>

#include "src/sys/context_verbs.hpp"
#include "src/sys/late_verbs.hpp"
#include "verbena/sys/cm_table.hpp"
#include "verbena/sys/efa_table.hpp"
#include "verbena/sys/library.hpp"

// Defined by the target `verbena::linked`: the functions of a static libibverbs.
extern "C" __attribute__((weak)) const verbena_soft_functions* verbena_linked_functions();

namespace verbena::inline VERBENA_ABI {
namespace {

// Fills every exported function from `look_up(name)`, which returns a plain function or nullptr.
template <class LookUp>
void fill(provider& to, LookUp&& look_up) {
  const auto find = [&](auto& member) {
    using function = typename std::remove_reference_t<decltype(member)>::function;
    member.set(reinterpret_cast<function>(look_up(member.name())));
  };
  to.verbs.for_each_exported(find);
  sys::cm_table cm;
  cm.for_each(find);
  to.cm = std::make_shared<const sys::cm_table>(cm);
  sys::efa_table efa;
  efa.for_each(find);
  to.efa = std::make_shared<const sys::efa_table>(efa);
  sys::set_context_verbs(to.verbs);
}

auto look_up_in(const verbena_soft_functions& all) {
  return [&all](std::string_view name) -> void (*)() {
    for (std::uint32_t i = 0; i < all.count; ++i)
      if (name == all.functions[i].name) return all.functions[i].function;
    return nullptr;
  };
}

auto look_up_in(void* library) {
  return [library](std::string_view name) {
    return reinterpret_cast<void (*)()>(::dlsym(library, name.data()));
  };
}

// Makes a provider once. After a failure the next call tries again.
template <class Make>
result<const provider*> once(std::mutex& mutex, const provider*& made, Make&& make) {
  const std::lock_guard lock(mutex);
  if (made == nullptr) {
    auto fresh = make();
    if (!fresh) return std::move(fresh).error();
    made = *fresh;  // exists until the process ends
  }
  return made;
}

result<const provider*> make_system_provider() {
  auto made = std::make_unique<provider>();
  if (verbena_linked_functions != nullptr) {
    made->origin = provider_origin::linked;
    fill(*made, look_up_in(*verbena_linked_functions()));
    return made.release();
  }
  VERBENA_TRY(void* const library, sys::load_system_library(sys::rdma_library::ibverbs));
  made->origin = provider_origin::system;
  fill(*made, look_up_in(library));
  sys::cm_table cm;
  sys::set_loading_cm(cm);
  made->cm = std::make_shared<const sys::cm_table>(cm);
  sys::efa_table efa;
  sys::set_loading_efa(efa);
  made->efa = std::make_shared<const sys::efa_table>(efa);
  if (!made->verbs.get_device_list.available())
    return error::unavailable(ENOSYS, "dlsym", "libibverbs.so.1",
                              "the library that was loaded has no ibv_get_device_list: "
                              "VERBENA_LIBIBVERBS must name a libibverbs");
  return made.release();
}

result<const provider*> make_soft_provider() {
  VERBENA_TRY(void* const library, sys::load_soft_device_library());
  const auto entry =
      reinterpret_cast<verbena_soft_entry_function>(::dlsym(library, "verbena_soft_entry"));
  const verbena_soft_functions* functions = entry != nullptr ? entry(soft_abi) : nullptr;
  if (functions == nullptr)
    return error::unavailable(EPROTO, "verbena_soft_entry", "libverbena-soft.so.0",
                              "the versions of libverbena-soft.so.0 and this library differ; "
                              "install both from the same build");
  auto made = std::make_unique<provider>();
  made->origin = provider_origin::soft;
  const auto listed = look_up_in(*functions);
  const auto exported = look_up_in(library);
  const auto look_up = [&](std::string_view name) {
    const auto found = listed(name);
    return found != nullptr ? found : exported(name);
  };
  fill(*made, look_up);
  made->soft_allocate =
      reinterpret_cast<verbena_soft_allocate_function>(look_up("verbena_soft_allocate"));
  made->soft_free = reinterpret_cast<verbena_soft_free_function>(look_up("verbena_soft_free"));
  made->soft_explain =
      reinterpret_cast<verbena_soft_explain_function>(look_up("verbena_soft_explain"));
  made->soft_inject_event =
      reinterpret_cast<verbena_soft_inject_event_function>(look_up("verbena_soft_inject_event"));
  made->soft_check_commands = reinterpret_cast<verbena_soft_check_commands_function>(
      look_up("verbena_soft_check_commands"));
  made->soft_reaches_hosts =
      reinterpret_cast<verbena_soft_reaches_hosts_function>(look_up("verbena_soft_reaches_hosts"));
  return made.release();
}

}  // namespace

result<const provider*> system_provider() {
  static std::mutex mutex;
  static const provider* made = nullptr;
  return once(mutex, made, make_system_provider);
}

result<const provider*> soft_provider() {
  static std::mutex mutex;
  static const provider* made = nullptr;
  return once(mutex, made, make_soft_provider);
}

result<const sys::efa_table*> efa_functions(const provider& from) {
  if (from.origin == provider_origin::system)
    VERBENA_TRY_DISCARD(sys::load_system_library(sys::rdma_library::efa));
  if (from.efa == nullptr || !from.efa->query_device.available())
    return error::not_supported(
        "efadv_query_device", to_string(from.origin),
        from.origin == provider_origin::linked
            ? "the program was linked without the driver of EFA: see VERBENA_LINKED_DRIVERS"
            : "the software device that was loaded has no EFA");
  return from.efa.get();
}

result<const sys::cm_table*> cm_functions(const provider& from) {
  if (from.origin == provider_origin::system)
    VERBENA_TRY_DISCARD(sys::load_system_library(sys::rdma_library::rdmacm));
  if (from.cm == nullptr || !from.cm->create_event_channel.available())
    return error::not_supported(
        "rdma_create_event_channel", to_string(from.origin),
        from.origin == provider_origin::linked
            ? "the program was linked without librdmacm.a: install it where the program is built"
            : "the software device that was loaded has no connection manager");
  return from.cm.get();
}

const char* to_string(provider_origin origin) noexcept {
  switch (origin) {
    case provider_origin::system:
      return "system";
    case provider_origin::linked:
      return "linked";
    case provider_origin::soft:
      return "soft";
  }
  return "unknown";
}

}  // namespace verbena::inline VERBENA_ABI
