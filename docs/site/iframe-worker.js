// Browsers start no worker for a page that was opened from a folder, and the search is one: there a hidden frame runs its script.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #inside;
    #waiting = [];

    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.#inside = frame.contentWindow;
      const script = Object.assign(frame.contentDocument.createElement("script"), { src: new URL(url, location).href });
      frame.contentDocument.open();
      this.#inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      frame.contentDocument.write(script.outerHTML);
      frame.contentDocument.close();
      frame.addEventListener("load", () => {
        const waiting = this.#waiting;
        this.#waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      });
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      else this.#inside.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
