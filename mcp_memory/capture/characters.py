"""Classes of characters that capturing and showing text agree on, each as the inside of a bracket of an expression."""

from __future__ import annotations

#: Every default-ignorable code point of Unicode (DerivedCoreProperties): a model reads what no screen shows, and a
#: secret may be split by it.
IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
#: Those among them that emoji and other scripts need: joiners and variation selectors.
SHAPING = "\u180b-\u180d\u180f\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
HAN = "\u3005-\u3007\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
#: Han, kana, Hangul, Thai, Lao, Khmer and Burmese: blanks do not part their words. Hangul has blanks, but its particles
#: cling to the word before.
UNSPACED = HAN + (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3031-\u3035\u303c\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\ua960-\ua97f\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7ff\uff66-\uff9f\uffa1-\uffdc\U0001aff0-\U0001b16f"
)
