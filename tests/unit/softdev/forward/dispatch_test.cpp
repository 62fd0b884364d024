// SPDX-License-Identifier: MIT
// Calls every dispatched function with an object of the hardware library and of the software
// device, and checks which library was called. Both libraries are fakes that count calls.
// LD_PRELOAD contains the forwarder under test. With `--nothing`, the libraries have no functions,
// and each call must report EOPNOTSUPP in the way that its man page defines.
#include <dlfcn.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <type_traits>

#include "tests/unit/softdev/forward/checks.hpp"
#include "tests/unit/softdev/forward/fake_devices.hpp"

namespace {

// One of the two libraries.
struct library {
  fake_calls_function calls = nullptr;
  ibv_device* device = nullptr;
  ibv_context context{};

  explicit library(const char* variable) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): read only
    const char* const path = std::getenv(variable);
    void* const handle = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (handle == nullptr) {
      std::fprintf(stderr, "%s names no library\n", variable);
      std::exit(2);  // NOLINT(concurrency-mt-unsafe): no other threads
    }
    calls = reinterpret_cast<fake_calls_function>(dlsym(handle, "fake_calls"));
    device = reinterpret_cast<fake_device_function>(dlsym(handle, "fake_device"))();
    context.device = device;
  }
};

// An object of the library with the members that verbs.h declares.
struct object {
  library& owner;

  template <class Type>
  Type* as() const {
    if constexpr (std::is_same_v<Type, ibv_device>) {
      return owner.device;
    } else if constexpr (std::is_same_v<Type, ibv_context>) {
      return &owner.context;
    } else if constexpr (std::is_void_v<Type>) {
      static std::uint64_t unknown[32];
      return unknown;
    } else {
      static Type made{};
      made.context = &owner.context;
      return &made;
    }
  }
};

template <class Signature>
struct caller;
template <class Return, class Object, class... Others>
struct caller<Return(Object*, Others...)> {
  static constexpr bool object_is_opaque = std::is_void_v<Object>;
  using result = Return;

  static Return call(const char* name, const object& with) {
    auto* const function =
        reinterpret_cast<Return (*)(Object*, Others...)>(dlsym(RTLD_DEFAULT, name));
    expect(function != nullptr, name, "is not exported");
    if (function == nullptr) return Return();
    return function(with.as<Object>(), Others()...);
  }
};

struct both {
  library& hardware;
  library& soft;
};

template <class Signature>
void check_dispatch(const char* name, const both& libraries) {
  const auto [hardware, soft] = libraries;
  const int hardware_before = hardware.calls(name);
  const int soft_before = soft.calls(name);
  expect(hardware_before >= 0 && soft_before >= 0, name, "is unknown to the fake libraries");
  static_cast<void>(caller<Signature>::call(name, {hardware}));
  expect(hardware.calls(name) == hardware_before + 1, name, "hardware: the library is not called");
  expect(soft.calls(name) == soft_before, name, "hardware: the software device is called");
  if (caller<Signature>::object_is_opaque)
    return;  // the software device does not create such objects
  static_cast<void>(caller<Signature>::call(name, {soft}));
  expect(hardware.calls(name) == hardware_before + 1, name, "soft: the library is called");
  expect(soft.calls(name) == soft_before + 1, name, "soft: the software device is not called");
}

enum class how { null, code, minus_one, negative, zero, text, silent };

template <class Signature>
void check_nothing(const char* name, how expected, const object& with) {
  errno = 0;
  using result = typename caller<Signature>::result;
  if constexpr (std::is_void_v<result>) {
    caller<Signature>::call(name, with);
    expect(expected == how::silent, name, "returns nothing");
  } else if constexpr (std::is_same_v<result, const char*>) {
    expect(expected == how::text && caller<Signature>::call(name, with)[0] == '\0', name,
           "no text");
  } else if constexpr (std::is_pointer_v<result>) {
    expect(caller<Signature>::call(name, with) == nullptr && expected == how::null, name,
           "a value");
  } else {
    const auto got = static_cast<long>(caller<Signature>::call(name, with));
    const long wanted = expected == how::code        ? EOPNOTSUPP
                        : expected == how::minus_one ? -1
                        : expected == how::negative  ? -EOPNOTSUPP
                                                     : 0;
    expect(got == wanted, name, "returns something else");
  }
  expect(errno == EOPNOTSUPP, name, "does not set errno to EOPNOTSUPP");
}

void check_events(const both& libraries) {
  auto* const acknowledge =
      reinterpret_cast<decltype(ibv_ack_async_event)*>(dlsym(RTLD_DEFAULT, "ibv_ack_async_event"));
  for (int type = IBV_EVENT_CQ_ERR; type <= IBV_EVENT_WQ_FATAL; ++type) {
    for (const bool soft : {false, true}) {
      library& owner = soft ? libraries.soft : libraries.hardware;
      ibv_cq cq{};
      ibv_qp qp{};
      ibv_srq srq{};
      cq.context = qp.context = srq.context = &owner.context;
      ibv_async_event event{};
      event.event_type = static_cast<ibv_event_type>(type);
      bool of_object = true;
      if (type == IBV_EVENT_CQ_ERR) {
        event.element.cq = &cq;
      } else if (type <= IBV_EVENT_PATH_MIG_ERR || type == IBV_EVENT_QP_LAST_WQE_REACHED) {
        event.element.qp = &qp;
      } else if (type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_SRQ_LIMIT_REACHED) {
        event.element.srq = &srq;
      } else {
        of_object = false;
        event.element.port_num = 1;
      }
      const int before = owner.calls("ibv_ack_async_event");
      acknowledge(&event);
      const int after = owner.calls("ibv_ack_async_event");
      if (of_object || !soft)
        expect(after == before + 1, "ibv_ack_async_event", "the owner of the event is not called");
    }
  }
}

void check_list(const both& libraries) {
  const auto [hardware, soft] = libraries;
  auto* const get =
      reinterpret_cast<decltype(ibv_get_device_list)*>(dlsym(RTLD_DEFAULT, "ibv_get_device_list"));
  auto* const release = reinterpret_cast<decltype(ibv_free_device_list)*>(
      dlsym(RTLD_DEFAULT, "ibv_free_device_list"));
  int count = 0;
  ibv_device** const first = get(&count);
  ibv_device** const second = get(nullptr);
  expect(count == 2 && first[0] == hardware.device && first[1] == soft.device && !first[2],
         "ibv_get_device_list", "is not the hardware, then the software device");
  expect(second[0] == first[0] && second[1] == first[1], "ibv_get_device_list", "changes");
  release(first);
  release(second);
  for (const library* each : {&hardware, &soft}) {
    expect(each->calls("ibv_get_device_list") == 2, "ibv_get_device_list", "asks not each once");
    expect(each->calls("ibv_free_device_list") == 2, "ibv_free_device_list", "frees not each");
  }
}

void check_import(const both& libraries) {
  auto* const import =
      reinterpret_cast<decltype(ibv_import_device)*>(dlsym(RTLD_DEFAULT, "ibv_import_device"));
  static_cast<void>(import(5));
  expect(libraries.hardware.calls("ibv_import_device") == 1, "ibv_import_device", "is not called");
  expect(libraries.soft.calls("ibv_import_device") == 0, "ibv_import_device", "goes to soft0");
}

}  // namespace

int main(int argc, char** argv) {
  library soft("VERBENA_SOFTDEV_LIBRARY");
  const bool nothing = argc > 1 && std::string_view(argv[1]) == "--nothing";
  if (nothing) {
    library other("FAKE_OTHER");
#define FORWARD(node, how_it_fails, result, name, parameters, arguments)    \
  check_nothing<result parameters>(#name, how::how_it_fails, object{soft}); \
  check_nothing<result parameters>(#name, how::how_it_fails, object{other});
#include "softdev/forward/functions.inc"
#include "softdev/forward/newer.inc"
#undef FORWARD
  } else {
    library hardware("FAKE_HARDWARE");
    const both libraries{hardware, soft};
    check_list(libraries);
#define FORWARD(node, how_it_fails, result, name, parameters, arguments) \
  check_dispatch<result parameters>(#name, libraries);
#include "softdev/forward/functions.inc"
#include "softdev/forward/newer.inc"
#undef FORWARD
    check_events(libraries);
    check_import(libraries);
  }
  std::printf("%d checks, %d failures\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
