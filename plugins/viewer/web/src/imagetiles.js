// Images that browsers decode: PNG, JPEG and WebP.

/** Return a promise of the image, or of null if it cannot be loaded. */
export function loadImage(url, signal) {
  return new Promise((resolve) => {
    const image = new Image();
    // Without permission of another host, its images could not be reprojected or saved.
    if (new URL(url, location.href).origin !== location.origin) image.crossOrigin = "anonymous";
    image.onload = () => resolve(image);
    image.onerror = () => resolve(null);
    signal.addEventListener("abort", () => {
      image.removeAttribute("src");
      resolve(null);
    });
    image.src = url;
  });
}
