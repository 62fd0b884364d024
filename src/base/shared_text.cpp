// SPDX-License-Identifier: MIT
#include "verbena/base/shared_text.hpp"

#include <atomic>

namespace verbena::inline VERBENA_ABI {

namespace detail {

struct counted_text {
  explicit counted_text(std::string_view copied) : text(copied) {}

  const std::string text;
  std::atomic<std::size_t> owners{1};
};

void hold(counted_text& text) noexcept { text.owners.fetch_add(1, std::memory_order_relaxed); }

void release(counted_text& text) noexcept {
  if (text.owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete &text;
}

}  // namespace detail

shared_text::shared_text(text_argument text) {
  if (text.shared_ != nullptr) {
    *this = *text.shared_;
    return;
  }
  view_ = text.view();
  if (text.is_literal_ || view_.empty()) return;
  owned_ = new detail::counted_text(view_);
  view_ = owned_->text;
}

}  // namespace verbena::inline VERBENA_ABI
