// SPDX-License-Identifier: MIT
// What the sources of the Rust crates say, where several entries have the same answer: `ibverbs`
// 0.9.2, `ibverbs-rs` 0.4.1, `rrddmma` at its head.
#pragma once

#include "tests/zoo/entry.hpp"

namespace verbena::zoo {

inline constexpr crate unknown = {answer::unknown, ""};
inline constexpr crate ibverbs_posts_are_unsafe = {
    answer::no, "submit and post_recv are unsafe: what memory does is the caller's promise"};
inline constexpr crate ibverbs_rs_borrows = {
    answer::yes, "a scoped operation borrows its memory until the scope is over"};
inline constexpr crate rrddmma_keeps_no_hold = {
    answer::no, "posts are safe functions that keep no hold on the memory that they name"};

}  // namespace verbena::zoo
