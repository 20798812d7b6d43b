from __future__ import annotations

import re

import libcst as cst

from det_compat.migrate.tree import syntax

SOURCE = """\
@n1(n2=n3, *n4)
def n5(n6, /, n7: n8 = n9, *n10, n11=n12, **n13) -> n14:
    n15 = n16 if n17 else n18
    with n19(n20) as n21, n22:
        n23 += [n24 for n25 in n26 if n27]
    try:
        n28
    except n29 as n30:
        raise n31 from n32
    for n33 in n34: n35
    return {n36: n37[n38], **n39}, lambda n40: n41 < n42 and not n43

@n44
class n45(n46, n47=n48):
    n49: n50 = n51
"""


def test_what_is_found_is_in_the_order_of_the_text() -> None:
    found = [name.value for name in syntax.find(cst.parse_module(SOURCE), cst.Name)]
    assert found == re.findall(r"n\d+", SOURCE)
