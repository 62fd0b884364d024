// SPDX-License-Identifier: MIT
#include "verbena/base/shared_text.hpp"

namespace verbena::inline VERBENA_ABI {

shared_text::shared_text(text_argument text) {
  if (text.shared_ != nullptr) {
    *this = *text.shared_;
    return;
  }
  size_ = text.view().size();
  if (text.is_literal_) {
    data_ = std::shared_ptr<const char>(std::shared_ptr<const void>(), text.view().data());
  } else if (size_ != 0) {
    const auto copy = std::make_shared<const std::string>(text.view());
    data_ = std::shared_ptr<const char>(copy, copy->data());
  }
}

}  // namespace verbena::inline VERBENA_ABI
