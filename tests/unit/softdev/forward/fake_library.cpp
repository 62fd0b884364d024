// SPDX-License-Identifier: MIT
// A library with one device, whose functions only count their calls. Compiled twice: as a
// libibverbs that exports the functions, and with FAKE_ENGINE as a software device that has them in
// a table. FAKE_LIST_ERRNO makes the device list fail. FAKE_EMPTY empties the table.
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "tests/unit/softdev/forward/fake_devices.hpp"
#include "verbena/base/soft_entry.hpp"

extern "C" int ibv_query_gid_type(ibv_context* context, uint8_t port_num, unsigned int index,
                                  int* type);

namespace {

enum class function {
#define FORWARD(node, how, result, name, parameters, arguments) name,
#include "softdev/forward/functions.inc"
#include "softdev/forward/newer.inc"
#undef FORWARD
  ibv_get_device_list,
  ibv_free_device_list,
  ibv_ack_async_event,
  ibv_import_device,
  count
};

constexpr auto function_count = static_cast<std::size_t>(function::count);

constexpr std::array<const char*, function_count> names{
#define FORWARD(node, how, result, name, parameters, arguments) #name,
#include "softdev/forward/functions.inc"
#include "softdev/forward/newer.inc"
#undef FORWARD
    "ibv_get_device_list",
    "ibv_free_device_list",
    "ibv_ack_async_event",
    "ibv_import_device",
};

std::array<std::atomic<int>, function_count> calls;

#ifdef FAKE_ENGINE
constexpr const char* device_name = "fake_soft";
#else
constexpr const char* device_name = "fake_hardware";
#endif

void count(function which) { calls[static_cast<std::size_t>(which)].fetch_add(1); }

template <function Which, class Signature>
struct tally;
template <function Which, class Return, class... Arguments>
struct tally<Which, Return(Arguments...)> {
  static Return call(Arguments... /*arguments*/) {
    count(Which);
    if constexpr (std::is_same_v<Return, const char*>)
      return device_name;
    else
      return Return();
  }
};

ibv_device* the_device() {
  static ibv_device device{};
  if (device.name[0] == '\0') std::strncpy(device.name, device_name, sizeof device.name - 1);
  return &device;
}

ibv_device** get_list(int* num_devices) {
  count(function::ibv_get_device_list);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read only
  if (const char* const text = std::getenv("FAKE_LIST_ERRNO")) {
    const std::string_view number = text;
    std::from_chars(number.data(), number.data() + number.size(), errno);
    return nullptr;
  }
  auto** const list = static_cast<ibv_device**>(std::calloc(2, sizeof(ibv_device*)));
  list[0] = the_device();
  if (num_devices != nullptr) *num_devices = 1;
  return list;
}

void free_list(ibv_device** list) {
  count(function::ibv_free_device_list);
  std::free(list);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int fake_calls(const char* name) {
  for (std::size_t i = 0; i < function_count; ++i)
    if (std::strcmp(names[i], name) == 0) return calls[i].load();
  return -1;
}

extern "C" __attribute__((visibility("default"))) ibv_device* fake_device() { return the_device(); }

#ifdef FAKE_ENGINE

namespace {

template <class Function>
verbena_soft_function entry(const char* name, Function* function) {
  return {name, reinterpret_cast<void (*)()>(function)};
}

template <function Which, class Signature>
verbena_soft_function counting(Signature* /*declared*/ = nullptr) {
  return entry(names[static_cast<std::size_t>(Which)], &tally<Which, Signature>::call);
}

#define FORWARD(node, how, result, name, parameters, arguments) \
  using name##_signature = result parameters;
#include "softdev/forward/functions.inc"
#include "softdev/forward/newer.inc"
#undef FORWARD

const std::array<verbena_soft_function, function_count + 1> table{
    entry("verbena_soft_device", &the_device),
#define FORWARD(node, how, result, name, parameters, arguments) \
  counting<function::name, name##_signature>(),
#include "softdev/forward/functions.inc"
#include "softdev/forward/newer.inc"
#undef FORWARD
    entry("ibv_get_device_list", &get_list),
    entry("ibv_free_device_list", &free_list),
    counting<function::ibv_ack_async_event, void(ibv_async_event*)>(),
    counting<function::ibv_import_device, ibv_context*(int)>(),
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const verbena_soft_functions* verbena_soft_entry(
    std::uint32_t abi) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read only
  const bool empty = std::getenv("FAKE_EMPTY") != nullptr;
  static const verbena_soft_functions functions{
      verbena::soft_abi, empty ? 1 : static_cast<std::uint32_t>(table.size()), table.data()};
  return abi == verbena::soft_abi ? &functions : nullptr;
}

#else

#define FORWARD(node, how, result, name, parameters, arguments)              \
  extern "C" __attribute__((visibility("default"))) result name parameters { \
    return tally<function::name, decltype(::name)>::call arguments;          \
  }
#include "softdev/forward/functions.inc"
#undef FORWARD
#define FORWARD(node, how, result, name, parameters, arguments)                      \
  extern "C" result newer_##name parameters __asm__(#name);                          \
  extern "C" __attribute__((visibility("default"))) result newer_##name parameters { \
    return tally<function::name, decltype(newer_##name)>::call arguments;            \
  }
#include "softdev/forward/newer.inc"
#undef FORWARD

extern "C" {
__attribute__((visibility("default"))) ibv_device** ibv_get_device_list(int* num_devices) {
  return get_list(num_devices);
}
__attribute__((visibility("default"))) void ibv_free_device_list(ibv_device** list) {
  free_list(list);
}
__attribute__((visibility("default"))) void ibv_ack_async_event(ibv_async_event* /*event*/) {
  count(function::ibv_ack_async_event);
}
__attribute__((visibility("default"))) ibv_context* ibv_import_device(int /*cmd_fd*/) {
  count(function::ibv_import_device);
  return nullptr;
}

// A private function with more arguments than registers, and an old version.
int ibv_cmd_reg_mr(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j);
__attribute__((visibility("default"))) int ibv_cmd_reg_mr(long a, long b, long c, long d, long e,
                                                          long f, long g, long h, long i, long j) {
  const std::array<long, 10> all{a, b, c, d, e, f, g, h, i, j};
  int position = 0;
  for (const long value : all)
    if (value != ++position * 1000L) return position;
  return 0;
}
double verbs_set_ops(double a, double b, double c, double d);
__attribute__((visibility("default"))) double verbs_set_ops(double a, double b, double c,
                                                            double d) {
  return a + 10 * b + 100 * c + 1000 * d;
}
}

#endif
