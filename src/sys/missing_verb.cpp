// SPDX-License-Identifier: MIT
#include "src/sys/missing_verb.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "verbena/sys/cm_table.hpp"
#include "verbena/sys/efa_table.hpp"
#include "verbena/sys/library.hpp"

namespace verbena::inline VERBENA_ABI::sys {
namespace {

struct later_verb {
  std::string_view name;
  rdma_library library;
  const char* file;
  int version;  // of rdma-core
};

// The functions that are newer than rdma-core 28 and that no older function can replace. Source:
// the symbol files of rdma-core (debian/*.symbols).
constexpr later_verb later_verbs[] = {
    {"ibv_reg_dmabuf_mr", rdma_library::ibverbs, "libibverbs.so.1", 34},
    {"rdma_set_local_ece", rdma_library::rdmacm, "librdmacm.so.1", 31},
    {"rdma_get_remote_ece", rdma_library::rdmacm, "librdmacm.so.1", 31},
    {"rdma_reject_ece", rdma_library::rdmacm, "librdmacm.so.1", 31},
    {"efadv_create_cq", rdma_library::efa, "libefa.so.1", 43},
    {"efadv_cq_from_ibv_cq_ex", rdma_library::efa, "libefa.so.1", 43},
};

bool table_lacks(const provider& from, std::string_view name) {
  bool missing = false;
  const auto look = [&](const auto& member) {
    missing = missing || (member.name() == name && !member.available());
  };
  verbs_table verbs = from.verbs;
  verbs.for_each_exported(look);
  if (from.cm != nullptr) {
    cm_table cm = *from.cm;
    cm.for_each(look);
  }
  if (from.efa != nullptr) {
    efa_table efa = *from.efa;
    efa.for_each(look);
  }
  return missing;
}

// The tables of librdmacm and libefa have functions that load the library at their first call.
bool library_lacks(const later_verb& verb) {
  const auto library = load_system_library(verb.library);
  return library && ::dlsym(*library, verb.name.data()) == nullptr;
}

}  // namespace

std::string explain_missing(const provider& from, std::string_view verb) {
  const auto* const found = std::ranges::find(later_verbs, verb, &later_verb::name);
  if (found == std::end(later_verbs)) return {};
  const bool late =
      from.origin == provider_origin::system && found->library != rdma_library::ibverbs;
  if (!table_lacks(from, verb) && !(late && library_lacks(*found))) return {};
  const char* const where = from.origin == provider_origin::system ? found->file
                            : from.origin == provider_origin::linked
                                ? "the library that is linked into the program"
                                : "the software device that was loaded";
  return fmt::format("{} does not have {}, which needs rdma-core {} or newer", where, verb,
                     found->version);
}

}  // namespace verbena::inline VERBENA_ABI::sys
