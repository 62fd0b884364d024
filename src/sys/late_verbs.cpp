// SPDX-License-Identifier: MIT
#include "src/sys/late_verbs.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <type_traits>

#include "verbena/sys/library.hpp"

namespace verbena::inline VERBENA_ABI::sys {
namespace {

// Looks up the function of a verb at its first call. If the lookup fails, the next call repeats it.
template <rdma_library Library, class Verb>
struct loading;
template <rdma_library Library, fixed_text Name, failure Convention, class Return,
          class... Arguments>
struct loading<Library, verb<Name, Convention, Return(Arguments...)>> {
  using verb_type = verb<Name, Convention, Return(Arguments...)>;
  using function = typename verb_type::function;
  static inline std::atomic<function> known{nullptr};

  static Return call(Arguments... arguments) {
    function found = known.load();
    if (found == nullptr) {
      if (const auto library = load_system_library(Library))
        found = reinterpret_cast<function>(::dlsym(*library, verb_type::name().data()));
      if (found == nullptr) return verb_type::fail(EOPNOTSUPP);
      known.store(found);
    }
    return found(arguments...);
  }
};

template <rdma_library Library, class Table>
void set_loading(Table& table) noexcept {
  table.for_each([](auto& member) {
    member.set(&loading<Library, std::remove_reference_t<decltype(member)>>::call);
  });
}

}  // namespace

void set_loading_efa(efa_table& table) noexcept { set_loading<rdma_library::efa>(table); }

void set_loading_cm(cm_table& table) noexcept { set_loading<rdma_library::rdmacm>(table); }

}  // namespace verbena::inline VERBENA_ABI::sys
