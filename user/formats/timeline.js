// SPDX-License-Identifier: Apache-2.0
// The chart of memory over time. A click chooses a moment, a drag a range: the flame graph of flame.js follows.
"use strict";
(() => {
const { data, element, bytes, show, choose, nrRuns } = window.flame;
const $ = id => document.getElementById(id);
const { ms, kib, peak, bands, series, subject, what } = data.timeline;
const nr = ms.length, LEFT = 62, RIGHT = 12, TOP = 18, BOTTOM = 18, CLICK = 4;
const FONT = '11px system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif';
const FILLS = [[212, 52, 58], [28, 82, 60], [138, 38, 52], [352, 62, 64], [182, 40, 54], [46, 76, 58],
	[280, 32, 64], [18, 28, 50], [325, 58, 74], [92, 36, 60]].map(([h, s, l]) => `hsl(${h}, ${s}%, ${l}%)`);
const PALE = { "[before bpfprof]": "hsl(220, 8%, 62%)", "[shared with parent]": "hsl(220, 14%, 72%)",
	"[swapped out]": "hsl(280, 10%, 68%)", "[drift]": "hsl(0, 0%, 50%)",
	"[cached by PyTorch]": "hsl(220, 14%, 72%)" }, PALE_OTHERS = "hsl(40, 10%, 68%)";

// Bytes of each stack over time, and the sums by band: rows without a stack at the bottom, drift at the top.
const lines = series.map(([run, band, ...changes]) => {
	const values = new Float64Array(nr);
	for (let i = 0; i < changes.length; i += 2)
		values.fill(changes[i + 1], changes[i]);
	return { run, band, values };
});
const layers = [...bands, "other"].map(text => ({ text, values: new Float64Array(nr) }));
const others = layers[bands.length]; // a function may have the same name
const rest = new Float64Array(nr); // of stacks without a series
for (let i = 0; i < nr; i++) {
	let sum = 0;
	for (const { band, values } of lines) {
		layers[band].values[i] += values[i];
		sum += values[i];
	}
	rest[i] = Math.abs(kib[i] - sum) > lines.length ? kib[i] - sum : 0; // rounding
	layers[bands.length].values[i] += rest[i];
}
if (bands[bands.length - 1] === "[drift]")
	layers.splice(bands.length - 1, 0, layers.pop());
let fills = 0;
for (const layer of layers)
	layer.fill = layer === others ? PALE_OTHERS : Object.hasOwn(PALE, layer.text) ? PALE[layer.text] : (layer.text[0] === "[" ? "hsl(0, 0%, 72%)" : FILLS[fills++ % FILLS.length]);

const chart = $("chart"), context = chart.getContext("2d");
let chosen = null, hover = -1, pressed = -1, width = 0, height = 0, most = 1, pending = false;

const span = Math.max(ms[nr - 1] - ms[0], 1);
const xOf = i => LEFT + (ms[i] - ms[0]) / span * (width - LEFT - RIGHT);
const yOf = value => height - BOTTOM - value / most * (height - TOP - BOTTOM);
const short = value => bytes(value * 1024).replace(/\.0+ /, " ");
function when(time) {
	const s = Math.round(time / 1000), two = value => String(value).padStart(2, "0");
	if (time < 100e3)
		return (time / 1000).toFixed(1) + " s";
	return (s >= 3600 ? Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) : Math.floor(s / 60)) + ":" + two(s % 60);
}

function drawAxes(style) {
	const step = 2 ** Math.ceil(Math.log2(most / 4)), nice = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200];
	context.fillStyle = style.quiet;
	context.strokeStyle = style.line;
	context.lineWidth = 1;
	context.textAlign = "right";
	for (let value = 0; value <= most; value += step) {
		const y = Math.round(yOf(value)) + 0.5;
		context.beginPath();
		context.moveTo(LEFT, y);
		context.lineTo(width - RIGHT, y);
		context.stroke();
		context.fillText(value ? short(value) : "0", LEFT - 6, y);
	}
	const every = 1000 * (nice.find(one => span / 1000 / one <= Math.max(width / 110, 1)) || 14400 * Math.ceil(span / 14400e3 / 8));
	context.textAlign = "center";
	for (let time = Math.ceil(ms[0] / every) * every; time <= ms[nr - 1]; time += every)
		context.fillText(when(time).replace(".0 ", " "), LEFT + (time - ms[0]) / span * (width - LEFT - RIGHT), height - BOTTOM / 2 + 1);
}

function drawLayers() {
	const below = new Float64Array(nr);
	for (const { values, fill } of layers) {
		context.beginPath();
		for (let i = 0; i < nr; i++)
			context.lineTo(xOf(i), yOf(below[i] + Math.max(values[i], 0)));
		for (let i = nr - 1; i >= 0; i--)
			context.lineTo(xOf(i), yOf(below[i]));
		context.fillStyle = fill;
		context.fill();
		for (let i = 0; i < nr; i++)
			below[i] += Math.max(values[i], 0);
	}
}

function drawPeak(style) {
	const x = xOf(peak), y = yOf(kib[peak]), text = `peak ${bytes(kib[peak] * 1024)}`;
	const half = context.measureText(text).width / 2;
	context.fillStyle = style.text;
	context.beginPath();
	context.moveTo(x, y - 1);
	context.lineTo(x - 4, y - 7);
	context.lineTo(x + 4, y - 7);
	context.fill();
	const right = x + 2 * half + 10 < width - RIGHT;
	context.textAlign = right ? "left" : "right";
	context.fillText(text, right ? x + 8 : x - 8, Math.max(y - 9, 8));
}

function drawChosen(range, style) {
	if (!range)
		return;
	const [a, b] = range.map(xOf);
	context.fillStyle = style.focus;
	context.globalAlpha = 0.18;
	context.fillRect(a, TOP - 6, b - a, height - TOP - BOTTOM + 6);
	context.globalAlpha = 1;
	for (const x of range[0] === range[1] ? [a] : [a, b])
		context.fillRect(x - 1, TOP - 6, 2, height - TOP - BOTTOM + 6);
}

function draw() {
	pending = false;
	const css = getComputedStyle(document.documentElement), ratio = window.devicePixelRatio || 1, style = {};
	for (const key of ["text", "quiet", "line", "focus"])
		style[key] = css.getPropertyValue("--" + key);
	width = chart.clientWidth;
	height = chart.clientHeight;
	chart.width = Math.round(width * ratio);
	chart.height = Math.round(height * ratio);
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	context.font = FONT;
	context.textBaseline = "middle";
	most = 1.04 * Math.max(...kib, ...kib.map((all, i) => layers.reduce((sum, { values }) => sum + Math.max(values[i], 0), 0)), 1);
	drawLayers();
	drawAxes(style);
	context.beginPath();
	for (let i = 0; i < nr; i++)
		context.lineTo(xOf(i), yOf(kib[i]));
	context.strokeStyle = style.text;
	context.lineWidth = 1.2;
	context.stroke();
	drawPeak(style);
	drawChosen(pressed >= 0 && hover >= 0 ? [Math.min(pressed, hover), Math.max(pressed, hover)] : chosen, style);
	if (hover >= 0 && pressed < 0) {
		context.fillStyle = style.text;
		context.fillRect(xOf(hover) - 0.5, TOP - 6, 1, height - TOP - BOTTOM + 6);
	}
	showBands();
}

function redraw() {
	if (!pending) {
		pending = true;
		requestAnimationFrame(draw);
	}
}

// The legend, with the values at the moment or of the range that is chosen, else at the moment that is pointed at.
function showBands() {
	const range = chosen && chosen[0] !== chosen[1] ? chosen : null;
	const at = chosen ? chosen[1] : hover >= 0 ? hover : nr - 1;
	const items = [...layers].reverse().filter(({ values }) => values.some(value => value)).map(({ text, values, fill }) => {
		const item = element("li"), mark = element("i"), value = range ? values[range[1]] - values[range[0]] : values[at];
		mark.style.background = fill;
		item.append(mark, element("span", text), " ", element("b", (range && value > 0 ? "+" : "") + bytes(value * 1024)));
		item.title = text;
		return item;
	});
	$("bands").replaceChildren(...items);
}

function words() {
	if (hover >= 0 && pressed < 0 && !chosen)
		return `${when(ms[hover])}: ${bytes(kib[hover] * 1024)}. Click for this moment, drag for a range.`;
	if (!chosen)
		return `${subject}. The graph: ${what}. Click for a moment, drag for a range.`;
	const [a, b] = chosen, by = kib[b] - kib[a];
	if (a === b)
		return `At ${when(ms[a])}: ${bytes(kib[a] * 1024)}${a === peak ? ", the peak" : ""}`;
	return `From ${when(ms[a])} to ${when(ms[b])}: ${by < 0 ? "" : "+"}${bytes(by * 1024)}. The graph: what grew.`;
}

function showWords() {
	$("moment").textContent = words();
	chart.setAttribute("aria-valuetext", words());
	chart.setAttribute("aria-valuenow", chosen ? chosen[1] : nr - 1);
	$("whole").disabled = !chosen;
}

// null: the whole run; [i, i]: a moment; [a, b]: what grew in between.
function setChosen(range) {
	chosen = range;
	choose(!range ? "" : range[0] === range[1] ? String(range[0]) : range.join("-"));
	let values = null;
	if (range) {
		const [a, b] = range, of = held => 1024 * Math.max(a === b ? held[a] : held[b] - held[a], 0);
		values = new Float64Array(nrRuns);
		for (const line of lines)
			values[line.run] += of(line.values);
		values[nrRuns - 1] = of(rest);
	}
	show(values);
	showWords();
	redraw();
}

function fromAddress() {
	const found = /(?:^#|&)m=(\d+)(?:-(\d+))?(?:&|$)/.exec(location.hash);
	const [a, b] = found ? [Number(found[1]), Number(found[2] || found[1])] : [nr, nr];
	if (a < nr && b < nr && a <= b)
		setChosen([a, b]);
	else if (chosen)
		setChosen(null);
}

function momentAt(event) {
	const x = event.clientX - chart.getBoundingClientRect().left;
	let best = 0;
	for (let i = 1; i < nr; i++)
		if (Math.abs(xOf(i) - x) < Math.abs(xOf(best) - x))
			best = i;
	return best;
}

// With Shift, the end of the range moves.
function step(event) {
	const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : event.key === "Home" ? -nr : nr;
	const [a, b] = chosen || (by < 0 ? [nr - 1, nr] : [0, -1]);
	const to = Math.min(Math.max(b + by, event.shiftKey && chosen ? a : 0), nr - 1);
	setChosen([event.shiftKey && chosen ? a : to, to]);
}

let pressedX = 0;
chart.addEventListener("pointerdown", event => {
	chart.setPointerCapture(event.pointerId);
	pressed = momentAt(event);
	pressedX = event.clientX;
});
chart.addEventListener("pointermove", event => {
	hover = momentAt(event);
	showWords();
	redraw();
});
chart.addEventListener("pointerup", event => {
	if (pressed < 0)
		return;
	const to = momentAt(event), from = Math.abs(event.clientX - pressedX) < CLICK ? to : pressed;
	pressed = -1;
	setChosen([Math.min(from, to), Math.max(from, to)]);
});
for (const name of ["pointerleave", "pointercancel"])
	chart.addEventListener(name, () => {
		hover = pressed = -1;
		showWords();
		redraw();
	});
chart.addEventListener("keydown", event => {
	if (event.ctrlKey || event.metaKey || event.altKey)
		return;
	if (/^(ArrowLeft|ArrowRight|Home|End)$/.test(event.key))
		step(event);
	else if (event.key === "Escape" && chosen)
		setChosen(null);
	else
		return;
	event.preventDefault();
	event.stopPropagation();
});
document.addEventListener("keydown", event => {
	if (event.target === $("search") || event.ctrlKey || event.metaKey || event.altKey)
		return;
	if (event.key === "p")
		setChosen([peak, peak]);
	else if (event.key === "w")
		setChosen(null);
});
$("peak").addEventListener("click", () => setChosen([peak, peak]));
$("whole").addEventListener("click", () => setChosen(null));
addEventListener("hashchange", fromAddress);
new ResizeObserver(redraw).observe(chart);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
chart.setAttribute("aria-valuemin", 0);
chart.setAttribute("aria-valuemax", nr - 1);
showWords();
fromAddress();
draw();
})();
