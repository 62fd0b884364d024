// SPDX-License-Identifier: MIT
#include "softdev/forward/real.hpp"

#include <dlfcn.h>
#include <pthread.h>

namespace verbena::forward {
namespace {

constinit function_table table;
constinit void* library = nullptr;
pthread_once_t library_once = PTHREAD_ONCE_INIT;
pthread_once_t table_once = PTHREAD_ONCE_INIT;

void* real_library() noexcept {
  pthread_once(&library_once, [] { library = find_real_library(); });
  return library;
}

}  // namespace

plain_function real_function(const char* name, const char* version) noexcept {
  void* const from = real_library();
  if (from == nullptr) return nullptr;
  void* const found = version != nullptr ? dlvsym(from, name, version) : dlsym(from, name);
  return reinterpret_cast<plain_function>(found);
}

const function_table& real_table() noexcept {
  pthread_once(&table_once, [] {
    for (std::size_t i = 0; i < slot_count; ++i)
      table.functions[i] = real_function(name_of(static_cast<slot>(i)), nullptr);
  });
  return table;
}

}  // namespace verbena::forward
