// SPDX-License-Identifier: MIT
// ibv_get_device_list: one list of the hardware, then the software device, each once.
#include <pthread.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>

#include "softdev/forward/engine.hpp"
#include "softdev/forward/message.hpp"
#include "softdev/forward/real.hpp"

namespace verbena::forward {
namespace {

using get_list = decltype(ibv_get_device_list);
using free_list = decltype(ibv_free_device_list);

// The devices of one table.
struct part {
  const function_table* table = nullptr;
  ibv_device** list = nullptr;
  int count = 0;
  int failure = 0;  ///< errno if there is no list

  void get(const function_table& from) noexcept {
    table = &from;
    auto* const function = from.at<get_list>(slot::ibv_get_device_list);
    if (function == nullptr) {
      failure = ENOSYS;
      return;
    }
    errno = 0;
    list = function(&count);
    failure = list == nullptr ? (errno != 0 ? errno : ENODEV) : 0;
    if (list == nullptr || count < 0) count = 0;
  }

  void release() const noexcept {
    if (list == nullptr) return;
    if (auto* const function = table->at<free_list>(slot::ibv_free_device_list)) function(list);
  }
};

// A list that was returned to the program as `devices`.
struct handed_out {
  handed_out* next = nullptr;
  part hardware;
  part soft;
  ibv_device** devices = nullptr;
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
constinit handed_out* all_handed_out = nullptr;

void remember(handed_out* made) noexcept {
  pthread_mutex_lock(&mutex);
  made->next = all_handed_out;
  all_handed_out = made;
  pthread_mutex_unlock(&mutex);
}

// Removes and returns the record of `devices`; nullptr if the list was not made here.
handed_out* forget(ibv_device** devices) noexcept {
  pthread_mutex_lock(&mutex);
  handed_out** link = &all_handed_out;
  while (*link != nullptr && (*link)->devices != devices) link = &(*link)->next;
  handed_out* const found = *link;
  if (found != nullptr) *link = found->next;
  pthread_mutex_unlock(&mutex);
  return found;
}

void get_parts(handed_out& made) noexcept {
  const listing wanted = wanted_listing();
  if (wanted != listing::only) made.hardware.get(real_table());
  if (wanted == listing::off) return;
  made.soft.get(soft_engine().table);
  // ENOSYS is not reported: a kernel without RDMA is a reason to use the software device.
  if (made.soft.list != nullptr && made.hardware.failure != 0 && made.hardware.failure != ENOSYS)
    warn_once(warning::no_adapters,
              "only soft0 is listed, because libibverbs failed to list the hardware: ",
              strerrorname_np(made.hardware.failure));
}

// Fills `to`. Omits the software device if the list of the hardware contains it.
int merge(const handed_out& from, ibv_device** to) noexcept {
  int count = 0;
  for (const part* each : {&from.hardware, &from.soft}) {
    if (each->list == nullptr) continue;
    for (int i = 0; i < each->count; ++i)
      if (each == &from.soft || !is_soft(each->list[i])) to[count++] = each->list[i];
  }
  return count;
}

ibv_device** fail(handed_out* made, int code) noexcept {
  made->hardware.release();
  made->soft.release();
  std::free(made);
  errno = code;
  return nullptr;
}

}  // namespace
}  // namespace verbena::forward

using namespace verbena::forward;

extern "C" __attribute__((visibility("default"))) ibv_device** ibv_get_device_list(
    int* num_devices) {
  if (num_devices != nullptr) *num_devices = 0;
  auto* const made = static_cast<handed_out*>(std::calloc(1, sizeof(handed_out)));
  if (made == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  get_parts(*made);
  if (made->hardware.list == nullptr && made->soft.list == nullptr)
    return fail(made, made->hardware.failure != 0 ? made->hardware.failure : made->soft.failure);
  const auto most =
      static_cast<std::size_t>(made->hardware.count) + static_cast<std::size_t>(made->soft.count);
  made->devices = static_cast<ibv_device**>(std::calloc(most + 1, sizeof(ibv_device*)));
  if (made->devices == nullptr) return fail(made, ENOMEM);
  const int count = merge(*made, made->devices);
  if (num_devices != nullptr) *num_devices = count;
  remember(made);
  return made->devices;
}

extern "C" __attribute__((visibility("default"))) void ibv_free_device_list(ibv_device** list) {
  handed_out* const known = forget(list);
  if (known == nullptr) {  // a list of the real library
    if (auto* const function = real_table().at<free_list>(slot::ibv_free_device_list))
      function(list);
    return;
  }
  known->hardware.release();
  known->soft.release();
  std::free(known->devices);
  std::free(known);
}
