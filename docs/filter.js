// A field above a table shows the rows that have all of its words.
for (const field of document.querySelectorAll("input.filter")) {
  const rows = field.closest("article").querySelectorAll("tbody tr")
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/)
    for (const row of rows) row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word))
  })
}
