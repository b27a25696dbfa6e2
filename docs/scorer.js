// How the search orders its results: pages that answer a question come before reference pages and the list of changes,
// and pages with the words of the query in their title before others.
const PLACES = { tutorials: 20, guides: 20, explanation: 10, examples: 5, reference: 0, project: -20 };

var Scorer = {
  score: ([docname, title, anchor, descr, score]) => {
    const query = new URLSearchParams(location.search).get("q") || "";
    const words = query.toLowerCase().match(/[\w.-]{3,}/g) || [];
    const named = words.filter((word) => title.toLowerCase().includes(word)).length;
    return score + (PLACES[docname.split("/")[0]] ?? 0) + 10 * named;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
