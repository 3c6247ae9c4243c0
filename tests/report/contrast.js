// Texts whose contrast with what is behind them is below WCAG's 4.5 : 1.
const channel = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
const luminance = (colour) => {
  const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map(Number).map(channel);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!/, 0\)$/.test(colour)) return colour;
  }
  return "rgb(255, 255, 255)";
};
const ratio = (one, other) => {
  const [light, dark] = [luminance(one), luminance(other)].sort((p, q) => q - p);
  return (light + 0.05) / (dark + 0.05);
};
const html = [...document.querySelectorAll("h1,h2,h3,p,li,dt,dd,a,summary,button,label,output,pre,th,td,.state,footer")];
const found = html.map((each) => [each, getComputedStyle(each).color]);
for (const each of document.querySelectorAll(".canvas svg text")) found.push([each, getComputedStyle(each).fill]);
return found
  .filter(([each]) => each.textContent.trim())
  .map(([each, colour]) => [each.tagName, each.textContent.slice(0, 20), ratio(colour, behind(each)).toFixed(2)])
  .filter(([, , value]) => value < 4.5);
