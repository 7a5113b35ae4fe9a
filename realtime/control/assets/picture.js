"use strict";

// One live picture: Motion JPEG at once, and video by WebRTC in its place where and as long as that comes. What has no
// element for video is Motion JPEG always.

class LivePicture {
  static PATIENCE_MS = 6000;
  #id; #image; #video; #peer = null;

  constructor(id) {
    this.#id = id;
    this.#image = document.getElementById(id);
    this.#video = document.getElementById(`${id}-live`);
    // Only once there is something to see.
    this.#video?.addEventListener("loadeddata", () => { if (this.#peer) this.#showVideo(true); });
  }

  watch(webrtc) {
    this.leave();
    this.#showVideo(false);
    if (!webrtc || !this.#video || !window.RTCPeerConnection) return;
    const peer = this.#peer = new RTCPeerConnection();
    const giveUp = () => { if (peer === this.#peer) this.#hangUp(); };
    peer.addEventListener("connectionstatechange", () => {
      if (["disconnected", "failed", "closed"].includes(peer.connectionState)) giveUp();
    });
    setTimeout(() => { if (this.#video.hidden) giveUp(); }, LivePicture.PATIENCE_MS);
    this.#call(peer).catch(giveUp);
  }

  leave() {
    this.#hangUp();
    this.#image.removeAttribute("src");
  }

  async #call(peer) {
    peer.addEventListener("track", event => { this.#video.srcObject = new MediaStream([event.track]); });
    peer.addTransceiver("video", { direction: "recvonly" });
    await peer.setLocalDescription();
    const { sdp } = await ask("POST", `/api/pictures/${this.#id}`, { sdp: peer.localDescription.sdp });
    await peer.setRemoteDescription({ type: "answer", sdp });
  }

  #hangUp() {
    if (!this.#peer) return;
    this.#peer.close();
    this.#peer = this.#video.srcObject = null;
    if (!this.#video.hidden) this.#showVideo(false);
  }

  #showVideo(on) {
    if (this.#video) this.#video.hidden = !on;
    this.#image.hidden = on;
    if (on) this.#image.removeAttribute("src");
    else this.#image.src = `/picture/${this.#id}.mjpg?${Date.now()}`;
  }
}
