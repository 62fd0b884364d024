// SPDX-License-Identifier: MIT
// Nothing: what is compiled for its precompiled headers has to have a source.
