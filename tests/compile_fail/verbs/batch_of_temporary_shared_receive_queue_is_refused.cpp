// SPDX-License-Identifier: MIT
// A batch of receives posts to its queue at submit(): the queue cannot be a temporary.
// expect: deleted
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

void use(const verbena::protection_domain& pd, const verbena::shared_receive_queue& queue) {
#ifdef VERBENA_BAD
  static_cast<void>(queue);
  auto batch = pd.create_srq({}).value().start_receive();
#else
  static_cast<void>(pd);
  auto batch = queue.start_receive();
#endif
  static_cast<void>(batch.submit());
}
