// Every text's contrast with what is behind it (WCAG 2.2, 1.4.3: 4.5, and 3 for large ones): those that have less.
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map(); // a page has few colours and many texts, and reading a canvas is slow
  const rgba = (colour) => {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      known.set(colour, [...canvas.getImageData(0, 0, 1, 1).data]);
    }
    return known.get(colour);
  };
  const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const colour = rgba(getComputedStyle(one).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const pale = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (texts.nextNode()) {
    const text = texts.currentNode.data.trim();
    const one = texts.currentNode.parentElement;
    if (!text || !one.checkVisibility() || one.matches("noscript, title, desc, option")) continue;
    const style = getComputedStyle(one);
    const ink = rgba(one.closest("svg") ? style.fill : style.color);
    const [more, less] = [light(ink), light(behind(one))].sort((x, y) => y - x);
    const contrast = (more + 0.05) / (less + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    seen += 1;
    if (contrast < (large ? 3 : 4.5)) pale.push(`${text}: ${contrast.toFixed(2)}`);
  }
  return seen > 5 ? pale : ["hardly a text was looked at"];
}
