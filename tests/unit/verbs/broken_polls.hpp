// SPDX-License-Identifier: MIT
// A completion queue that cannot be polled any more.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>

#include "verbena/verbs/context.hpp"

namespace verbena::test {

/// Polls of the completion queues of a context fail while this object exists.
class broken_polls {
 public:
  explicit broken_polls(const context& of) : native_(of.native()), poll_(native_->ops.poll_cq) {
    native_->ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return -EIO; };
  }
  broken_polls(const broken_polls&) = delete;
  broken_polls& operator=(const broken_polls&) = delete;
  ~broken_polls() { native_->ops.poll_cq = poll_; }

 private:
  ibv_context* native_;
  int (*poll_)(ibv_cq*, int, ibv_wc*);
};

}  // namespace verbena::test
