// SPDX-License-Identifier: Apache-2.0
// The search runs in a worker, and browsers start none for pages that are opened from disk. There it
// runs in a hidden frame, which has what a worker's code expects of its surroundings.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.tell(data);
      const code = inside.document.createElement("script");
      code.onload = () => {
        const ready = this.waiting;
        this.waiting = null;
        for (const data of ready) this.postMessage(data);
      };
      code.src = new URL(url, location);
      inside.document.documentElement.appendChild(code);
    }

    // To the worker.
    postMessage(data) {
      if (this.waiting) {
        this.waiting.push(data);
        return;
      }
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    // From the worker, after what runs now, as messages come.
    tell(data) {
      setTimeout(() => {
        const event = new MessageEvent("message", { data });
        if (this.onmessage) this.onmessage(event);
        this.dispatchEvent(event);
      });
    }

    terminate() {
      this.frame.remove();
    }
  };
}
