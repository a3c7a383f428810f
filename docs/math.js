// Draw the formulas of the page. Zensical hands a page's formulas on as elements with the class arithmatex.
for (const element of document.querySelectorAll(".arithmatex")) {
  const text = element.textContent.trim()
  katex.render(text.slice(2, -2), element, { displayMode: text.startsWith("\\["), strict: "ignore" })
}
