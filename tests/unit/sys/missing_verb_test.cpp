// SPDX-License-Identifier: MIT
#include "src/sys/missing_verb.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/sys/fresh_process.hpp"
#include "verbena/sys/cm_table.hpp"
#include "verbena/sys/efa_table.hpp"

namespace verbena::sys {
namespace {

using testing_support::environment;

TEST(missing_verb, function_that_the_library_has_returns_an_empty_string) {
  EXPECT_EQ(explain_missing(*soft_provider().value(), "ibv_reg_dmabuf_mr"), "");
  EXPECT_EQ(explain_missing(*system_provider().value(), "ibv_reg_dmabuf_mr"), "");
  EXPECT_EQ(explain_missing(*system_provider().value(), "rdma_set_local_ece"), "");
}

TEST(missing_verb, function_of_the_oldest_version_returns_an_empty_string) {
  provider older = *soft_provider().value();
  older.verbs.reg_mr.set(nullptr);
  EXPECT_EQ(explain_missing(older, "ibv_reg_mr"), "");
}

TEST(missing_verb, text_names_library_function_and_version) {
  provider older = *system_provider().value();
  older.verbs.reg_dmabuf_mr.set(nullptr);
  EXPECT_EQ(explain_missing(older, "ibv_reg_dmabuf_mr"),
            "libibverbs.so.1 does not have ibv_reg_dmabuf_mr, which needs rdma-core 34 or newer");
  older = *soft_provider().value();
  auto efa = *older.efa;
  efa.create_cq.set(nullptr);
  older.efa = std::make_shared<const efa_table>(efa);
  EXPECT_EQ(explain_missing(older, "efadv_create_cq"),
            "the software device that was loaded does not have efadv_create_cq, which needs "
            "rdma-core 43 or newer");
}

TEST(missing_verb, library_that_is_loaded_late_is_searched) {
  const environment without("VERBENA_LIBRDMACM", "libm.so.6");
  EXPECT_EQ(explain_missing(*system_provider().value(), "rdma_set_local_ece"),
            "librdmacm.so.1 does not have rdma_set_local_ece, which needs rdma-core 31 or newer");
}

}  // namespace
}  // namespace verbena::sys
