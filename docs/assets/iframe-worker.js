// Search without a server: browsers refuse a Worker whose script lies on the disk (file:), so its
// script runs in a hidden frame instead, which may load it. Named in mkdocs.yml; served pages keep
// the browser's own Worker.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = []; // said before the frame listens
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame); // the body is not there yet
      const inside = frame.contentWindow;
      const tell = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.postMessage = (data) => setTimeout(tell, 0, data);
      inside.importScripts = (...urls) => Promise.all(urls.map((u) => this.load(u)));
      this.load = (u) => new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        Object.assign(script, { src: u, onload: resolve, onerror: reject });
        inside.document.head.append(script);
      });
      this.deliver = (data) => inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      this.load(url).then(() => {
        this.waiting.forEach(this.deliver);
        this.waiting = null;
      });
    }
    postMessage(data) {
      this.waiting ? this.waiting.push(data) : setTimeout(this.deliver, 0, data);
    }
    terminate() {}
  };
}
