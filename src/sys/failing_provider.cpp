// SPDX-License-Identifier: MIT
#include "verbena/sys/failing_provider.hpp"

#include <memory>

#include "verbena/base/assert.hpp"
#include "verbena/sys/cm_table.hpp"
#include "verbena/sys/efa_table.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

// The thunks are C functions without state: they use this instance.
std::atomic<failing_provider*> instance{nullptr};

}  // namespace

template <sys::fixed_text Name, sys::failure Convention, class Return, class... Arguments>
struct failing_provider::thunk<sys::verb<Name, Convention, Return(Arguments...)>> {
  using verb = sys::verb<Name, Convention, Return(Arguments...)>;
  static inline verb wrapped;

  static Return call(Arguments... arguments) {
    if (const int code = instance.load()->decide(verb::name())) return verb::fail(code);
    return wrapped(arguments...);
  }
};

template <class Verb>
void failing_provider::wrap(Verb& member) {
  if constexpr (Verb::can_fail) {
    thunk<Verb>::wrapped = member;
    member.set(&thunk<Verb>::call);
  }
}

failing_provider::failing_provider(const provider& wrapped) : provider_(wrapped) {
  VERBENA_ASSERT(instance.exchange(this) == nullptr, "a second failing_provider was created");
  provider_.verbs.for_each([this](auto& member) { wrap(member); });
  if (provider_.cm != nullptr) {
    sys::cm_table cm = *provider_.cm;
    cm.for_each([this](auto& member) { wrap(member); });
    provider_.cm = std::make_shared<const sys::cm_table>(cm);
  }
  if (provider_.efa != nullptr) {
    sys::efa_table efa = *provider_.efa;
    efa.for_each([this](auto& member) { wrap(member); });
    provider_.efa = std::make_shared<const sys::efa_table>(efa);
  }
}

failing_provider::~failing_provider() { instance = nullptr; }

void failing_provider::fail_call(std::size_t n, int code) noexcept {
  calls_ = 0;
  failed_ = "";
  verb_to_fail_ = "";
  code_ = code;
  fail_at_ = n;
}

void failing_provider::fail_verb(std::string_view name, int code) noexcept {
  fail_call(0, code);
  const auto choose = [&](auto& member) {
    if (member.name() == name) verb_to_fail_ = member.name().data();
  };
  // The names are part of the types of the members, so empty tables have them too.
  sys::verbs_table().for_each(choose);
  sys::cm_table().for_each(choose);
  sys::efa_table().for_each(choose);
  VERBENA_ASSERT(*verb_to_fail_.load() != '\0',
                 "fail_verb() of a name that is not a verb of the table");
}

std::string_view failing_provider::failed_verb() const noexcept { return failed_.load(); }

int failing_provider::decide(std::string_view name) noexcept {
  const std::size_t call = calls_.fetch_add(1) + 1;
  if (call != fail_at_.load() && name != verb_to_fail_.load()) return 0;
  failed_ = name.data();
  return code_.load();
}

}  // namespace verbena::inline VERBENA_ABI
