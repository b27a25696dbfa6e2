"""Is a page readable and usable, at 1280 x 800 and zoomed to 200 %, and does it keep its secrets?"""

from __future__ import annotations

import re

SIZES = ((1280, 800), (640, 400))  # 1280 x 800 at 200 % is 640 x 400 to the page
ZOOMED = {"width": 640, "height": 400}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
TELLS_NOTHING = r"|Image|Image above|Left image|Right image|Column \d|Image \d: choose a column"

# What is wrong with the page as it is: WCAG 2.2, 1.4.3 (contrast of text 4.5) and 1.4.10 (no scrolling in two ways).
AUDIT = """() => {
  const wrong = [];
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (colour) => channels(colour).slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if ((channels(colour)[3] ?? 1) > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  window.contrast = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  window.behind = behind;
  const seen = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const all = [...document.body.querySelectorAll("*")].filter(seen);
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) wrong.push(`scrolls sideways: ${root.scrollWidth} > ${root.clientWidth}`);
  for (const e of all) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    const ratio = window.contrast(getComputedStyle(e).color, behind(e));
    if (ratio < 4.5) wrong.push(`contrast ${ratio.toFixed(2)}: ${e.textContent}`);
  }
  for (const e of all.filter((e) => e.matches("button, input, a"))) {
    e.scrollIntoView({ block: "center" });
    const { left, top, width, height, right } = e.getBoundingClientRect();
    const there = document.elementFromPoint(left + width / 2, top + height / 2);
    if (!(e.contains(there) && left >= 0 && right <= root.clientWidth)) wrong.push(`out of reach: ${e.outerHTML}`);
    if (height < 24) wrong.push(`too small: ${e.outerHTML}`); // WCAG 2.2, 2.5.8
  }
  window.scrollTo(0, 0);
  return wrong;
}"""
FOCUSED = """() => {
  const e = document.activeElement;
  if (e === document.body || e.id === "stage") return null;
  const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(e);
  const ratio = window.contrast(outlineColor, window.behind(e.parentElement));
  return { what: e.outerHTML, ok: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 && ratio >= 3, ratio };
}"""


def looks_well(person):
    """Nothing is wrong at either size, nothing tells what an image shows, and the focus is always to be seen."""
    readable(person)
    alts = person.page.eval_on_selector_all("img", "(all) => all.map((one) => one.getAttribute('alt'))")
    assert [alt for alt in alts if alt is None or not re.fullmatch(TELLS_NOTHING, alt)] == []
    assert "secret" not in person.page.content()  # the names of the image files begin so
    all_marked(person)


def readable(person):
    for width, height in SIZES:
        person.page.set_viewport_size({"width": width, "height": height})
        assert person.page.evaluate(AUDIT) == [], (width, person.text()[:60])


def all_marked(person):
    """The Tab key comes to every control, and each shows that it has the focus."""
    controls = len(person.page.query_selector_all("button:enabled, input, a"))
    found = {}
    for _ in range(controls + 2):  # once it leaves the page, and once it may come to the stage
        person.page.keyboard.press("Tab")
        focus = person.page.evaluate(FOCUSED)
        if focus is not None:
            found[focus["what"]] = focus["ok"]
    assert len(found) == controls > 0, found
    assert all(found.values()), found


def all_in_sight(person):
    """At 200 % the sixteen icons are there without scrolling: there is no time to scroll."""
    boxes = [one.bounding_box() for one in person.page.query_selector_all(".grid button")]
    assert len(boxes) == 16
    assert all(box["y"] >= 0 and box["y"] + box["height"] <= SIZES[1][1] for box in boxes)
    icons = "(all) => all.every((one) => one.complete && one.naturalWidth > 0)"
    assert person.page.eval_on_selector_all(".grid img", icons)


def fits_a_phone(person, answers):
    """Images and answers are on the screen together, large enough, and nothing has to be scrolled."""
    page, height = person.page, PHONE["viewport"]["height"]
    images, buttons = (
        [one.bounding_box() for one in page.query_selector_all(f".trial {selector}")]
        for selector in (".figure img", "button[data-response]")
    )
    assert len(buttons) == answers
    assert all(box["y"] >= 0 and box["y"] + box["height"] <= height for box in [*images, *buttons])
    assert min(box["height"] for box in images) > 100
    assert min(box["height"] for box in buttons) >= 44  # a fingertip
    assert page.evaluate("document.documentElement.scrollHeight") <= height
    scrolls = "[...document.querySelectorAll('.choices')].some((one) => one.scrollHeight > one.clientHeight)"
    assert not page.evaluate(scrolls)
    page.set_viewport_size({"width": 390, "height": 560})  # a short screen with the browser's bars
    box = page.query_selector(".trial .figure img").bounding_box()
    assert box["y"] + box["height"] <= 560
