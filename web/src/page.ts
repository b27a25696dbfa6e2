/** Where the participant's page begins. */

import { Visit } from "./visit";

// a page that the Back button brings back from the browser's memory may be long out of date
window.addEventListener("pageshow", (event) => event.persisted && location.reload());

void new Visit(document.querySelector<HTMLElement>("#stage")!, document.querySelector<HTMLElement>("#notice")!).run();
