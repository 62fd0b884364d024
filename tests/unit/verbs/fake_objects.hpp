// SPDX-License-Identifier: MIT
// soft0 with fake address handles and shared receive queues that record the arguments of verbs.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <vector>

#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/provider.hpp"

namespace verbena::test {

/// At most one exists at a time; it must outlive all objects made through it.
class fake_objects {
 public:
  fake_objects() {
    instance = this;
    auto& verbs = provider_.verbs;
    verbs.create_ah.set(&create_ah);
    verbs.destroy_ah.set([](ibv_ah* way) {
      --instance->live;
      delete way;
      return 0;
    });
    verbs.create_srq.set(&create_srq);
    verbs.modify_srq.set(&modify_srq);
    verbs.query_srq.set([](ibv_srq* /*queue*/, ibv_srq_attr* out) {
      *out = instance->srq;
      return instance->code;
    });
    verbs.destroy_srq.set([](ibv_srq* queue) {
      --instance->live;
      delete queue;
      return 0;
    });
  }
  fake_objects(const fake_objects&) = delete;
  fake_objects& operator=(const fake_objects&) = delete;
  ~fake_objects() { instance = nullptr; }

  [[nodiscard]] const provider& get() const noexcept { return provider_; }

  int code = 0;  ///< errno of the next calls; 0: success
  int live = 0;  ///< objects that exist
  ibv_ah_attr address{};
  ibv_srq_attr srq{};
  int changed = 0;  ///< the mask of the last change

 private:
  static ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* asked) {
    instance->address = *asked;
    if (instance->failed()) return nullptr;
    ++instance->live;
    return new ibv_ah{pd->context, pd, 1};
  }
  static ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* asked) {
    instance->srq = asked->attr;
    if (instance->failed()) return nullptr;
    ++instance->live;
    auto* const made = new ibv_srq{};
    made->context = pd->context;
    made->pd = pd;
    return made;
  }
  static int modify_srq(ibv_srq* /*queue*/, ibv_srq_attr* changes, int mask) {
    instance->changed = mask;
    if (instance->code != 0) return instance->code;
    if ((mask & IBV_SRQ_LIMIT) != 0) instance->srq.srq_limit = changes->srq_limit;
    if ((mask & IBV_SRQ_MAX_WR) != 0) instance->srq.max_wr = changes->max_wr;
    return 0;
  }
  [[nodiscard]] bool failed() const {
    errno = code;
    return code != 0;
  }

  static inline fake_objects* instance = nullptr;
  provider provider_ = *soft_provider().value();
};

}  // namespace verbena::test
