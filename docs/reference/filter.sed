# SPDX-License-Identifier: MIT
# Turns a header into the text that Doxygen 1.9.4 reads. Line numbers do not change.

# The head comment describes the file.
1s/^.*$/\/\/\/ \\file/
2,/^#pragma once$/s/^\/\/\( \|$\)/\/\/\/ /

# Doxygen does not parse `namespace a::inline b`, and confuses specializations that differ only in a concept.
s/^namespace verbena::inline VERBENA_ABI/namespace verbena/
/^template <[a-z_]*_transport Transport>$/{
  N
  s/^template <\([a-z_]*\) Transport>\(\nclass .*\)<Transport>/template <\1 Transport>\2<\1>/
}

# Not public: names in detail, protected members, macros with parameters, specializations of enable_flags.
/^namespace detail {$/,/^}  \/\/ namespace detail$/s/.*//
s/^ protected:$/ private:/
s/^#define VERBENA_[A-Z_]*_(.*//
/^template <>$/{
  N
  s/^template <>\ninline constexpr bool \(verbena::\)\?enable_flags<.*$/\n/
}

# Comments for declarations that need none in the header.
s/^\( *\)\(friend .*operator==(.* = default;\)$/\1\/** Compares all members. *\/ \2/
s/^\( *\)\(friend .*operator<=>(.* = default;\)$/\1\/** Compares all members, in their order. *\/ \2/
s/^  verb<"\(_\?\(ibv\|efadv\|rdma\)_[a-z0-9_]*\)"/\/** The function \1. *\/ &/

# `::ffff` begins an IPv6 address; it is not a global name.
/::ffff/{
  s/`\([^`]*::ffff[^`]*\)`/<code>\1<\/code>/g
  s/::ffff/::<\/code><code>ffff/g
}
