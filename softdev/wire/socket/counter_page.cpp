// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/counter_page.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

namespace verbena::softdev::wire {

counter_page::counter_page() noexcept : file_(::memfd_create(file_name, MFD_CLOEXEC)) {
  if (!file_ || ::ftruncate(file_.get(), sizeof(content)) != 0) return;
  void* const mapped =
      ::mmap(nullptr, sizeof(content), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (mapped == MAP_FAILED) return;
  content_ = new (mapped) content{.format = {'v', 'b', 'c', 'o', 'u', 'n', 't', '1'},
                                  .count = named_counter_count,
                                  .entries = {}};
}

counter_page::~counter_page() {
  if (content_ != nullptr) ::munmap(content_, sizeof(content));
}

void counter_page::publish(const std::array<named_counter, named_counter_count>& now) noexcept {
  if (content_ == nullptr) return;
  for (std::size_t i = 0; i < now.size(); ++i) {
    entry& to = content_->entries[i];
    if (to.name[0] == 0)
      std::copy_n(now[i].name.begin(), std::min(now[i].name.size(), to.name.size() - 1),
                  to.name.begin());
    to.value.store(now[i].value, std::memory_order_relaxed);
  }
}

}  // namespace verbena::softdev::wire
