// SPDX-License-Identifier: MIT
// Frequent answers for the Rust crates, from the sources of `ibverbs` 0.9.2, `ibverbs-rs` 0.4.1 and
// the head of `rrddmma`.
#pragma once

#include "tests/zoo/entry.hpp"

namespace verbena::zoo {

inline constexpr crate unknown = {answer::unknown, ""};
inline constexpr crate ibverbs_posts_are_unsafe = {
    answer::no, "submit and post_recv are unsafe: the caller guarantees the lifetime of memory"};
inline constexpr crate ibverbs_rs_borrows = {
    answer::yes, "a scoped operation borrows its memory until the scope ends"};
inline constexpr crate rrddmma_does_not_borrow = {
    answer::no, "posts are safe functions that do not borrow their memory"};

}  // namespace verbena::zoo
