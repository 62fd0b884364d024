# SPDX-License-Identifier: MIT
# What Doxygen 1.9.4 reads instead of a header. Lines keep their numbers.

# The head comment describes the file.
1s/^.*$/\/\/\/ \\file/
2,/^#pragma once$/s/^\/\/\( \|$\)/\/\/\/ /

# It does not read `namespace a::inline b`, nor tell apart specialisations that differ in their concept.
s/^namespace verbena::inline VERBENA_ABI/namespace verbena/
/^template <[a-z_]*_transport Transport>$/{
  N
  s/^template <\([a-z_]*\) Transport>\(\nclass .*\)<Transport>/template <\1 Transport>\2<\1>/
}

# Not public: names in detail, what only classes of the library inherit, macros for macros, the switches of the operators of flags.
/^namespace detail {$/,/^}  \/\/ namespace detail$/s/.*//
s/^ protected:$/ private:/
s/^#define VERBENA_[A-Z_]*_(.*//
/^template <>$/{
  N
  s/^template <>\ninline constexpr bool \(verbena::\)\?enable_flags<.*$/\n/
}

# What the line itself says.
s/^\( *\)\(friend .*operator==(.* = default;\)$/\1\/** Compares all members. *\/ \2/
s/^\( *\)\(friend .*operator<=>(.* = default;\)$/\1\/** Compares all members, in their order. *\/ \2/
s/^  verb<"\(_\?\(ibv\|efadv\|rdma\)_[a-z0-9_]*\)"/\/** The function \1. *\/ &/

# The beginning of an address is not the name of something global.
/::ffff/{
  s/`\([^`]*::ffff[^`]*\)`/<code>\1<\/code>/g
  s/::ffff/::<\/code><code>ffff/g
}
