// SPDX-License-Identifier: Apache-2.0
// Draws the flame graph of the page that html.c writes. Text only ever reaches the page as text.
"use strict";
(() => {
const $ = id => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const ROW = 18, MIN_WIDTH = 0.3;
const FONT = '12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace';
// By the digit in data.kinds: hue, saturation, lightness.
const KINDS = [
	{ label: "process", hsl: [262, 16, 74] },
	{ label: "kernel", hsl: [20, 82, 66] },
	{ label: "native", hsl: [212, 68, 71] },
	{ label: "Python", hsl: [138, 44, 63] },
	{ label: "marker", hsl: [0, 0, 72] },
	{ label: { call: "GPU call", byte: "no stack" }[data.unit] || "waiting", hsl: [46, 78, 62] },
	{ label: "thread", hsl: [262, 16, 80] },
];
const LEGEND = [5, 3, 2, 1, 4];
const unit = data.unit; // without a moment of a time line
const calls = unit !== undefined; // counted things, samples of time otherwise

const diff = data.diff; // two profiles: widths are those of both together, in diff.unit

const tree = flameTree(data);
const { nr, name, parent, skip, depth, start, total, own, startOld, totalOld, ownOld } = tree;
let all = total[0];
const seconds = all ? data.ns / 1e9 / all : 0;
const frameName = node => !node ? (diff ? "all" : `all (${count(all)})`) : data.names[name[node]];
const frameKind = node => !node ? 0 : data.kinds.charCodeAt(name[node]) - 48;

function colour(kind, text) {
	let hash = 0;
	for (let i = 0; i < Math.min(text.length, 40); i++)
		hash = (hash * 31 + text.charCodeAt(i)) | 0;
	const [h, s, l] = KINDS[kind].hsl, turn = (hash >>> 4) % 13 - 6;
	return `hsl(${h + turn}, ${s}%, ${l + (hash >>> 9) % 9 - 4}%)`;
}
const colours = data.names.map((text, i) => colour(data.kinds.charCodeAt(i) - 48, text));

// Two profiles: red grew, blue shrank; pale is what sampling alone makes of the same.
function change(both, old) {
	const fresh = Math.max(both - old, 0), by = fresh - old;
	const error = Math.sqrt(diff.sample_before * Math.max(old, diff.sample_before) +
		diff.sample_after * Math.max(fresh, diff.sample_after));
	return { old, fresh, by, error, part: by / Math.max(fresh, old, 1e-300), sure: Math.abs(by) > 2 * error };
}
function diffColour(both, old) {
	const { part, sure } = change(both, old);
	if (!sure)
		return "hsl(40, 12%, 88%)";
	const strength = Math.min(1, Math.abs(part));
	return `hsl(${part > 0 ? 4 : 214}, ${60 + 25 * strength}%, ${84 - 26 * strength}%)`;
}
const nodeColour = node => diff ? diffColour(total[node], totalOld[node]) : !node ? "hsl(262, 10%, 82%)" : colours[name[node]];

// What is on the screen.
const view = $("view"), canvas = $("canvas"), context = canvas.getContext("2d");
let zoomed = 0, focus = -1, hover = -1, fromTop = true, matches = null;
let chosen = ""; // the moment or range of a time line, for the address
let rows = [], width = 0, height = 0, contentHeight = 0, charWidth = 7, pending = false;

const nodeX = node => node < zoomed || node >= skip[zoomed] ? 0 :
	(start[node] - start[zoomed]) / (total[zoomed] || 1) * width;
const nodeWidth = node => node < zoomed ? width : total[zoomed] ? total[node] / total[zoomed] * width : 0;
const rowY = level => fromTop ? level * ROW : Math.max(contentHeight, height) - (level + 1) * ROW;

// Per level the nodes wide enough to see, left to right.
function layout() {
	width = view.clientWidth;
	height = view.clientHeight;
	rows = [];
	for (let node = parent[zoomed]; node >= 0; node = parent[node])
		rows[depth[node]] = [node];
	const least = MIN_WIDTH / Math.max(width, 1) * total[zoomed];
	for (let node = zoomed; node < skip[zoomed];) {
		if (total[node] < least || (!total[node] && node)) {
			node = skip[node];
			continue;
		}
		(rows[depth[node]] = rows[depth[node]] || []).push(node);
		node++;
	}
	contentHeight = rows.length * ROW;
	$("spacer").style.height = Math.max(0, contentHeight - height) + "px";
	const ratio = window.devicePixelRatio || 1;
	const pixelWidth = Math.round(width * ratio), pixelHeight = Math.round(height * ratio);
	canvas.style.width = width + "px";
	canvas.style.height = height + "px";
	if (canvas.width !== pixelWidth || canvas.height !== pixelHeight) { // setting them clears it
		canvas.width = pixelWidth;
		canvas.height = pixelHeight;
	}
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	context.font = FONT;
	context.textBaseline = "middle";
	charWidth = context.measureText("M").width;
}

function fit(text, space) {
	const most = Math.floor(space / charWidth);
	if (text.length <= most)
		return text;
	return most < 3 ? "" : text.slice(0, most - 1) + "…";
}

function drawRow(level, y, style) {
	for (const node of rows[level]) {
		const x = nodeX(node), w = nodeWidth(node);
		const matched = matches && node && matches[name[node]];
		context.globalAlpha = node < zoomed ? 0.55 : matches && !matched ? 0.35 : 1;
		context.fillStyle = matched ? "hsl(322, 85%, 70%)" : nodeColour(node);
		context.fillRect(x, y, w > 1.5 ? w - 0.7 : w, ROW - 1);
		if (w > 3 * charWidth + 6) {
			const text = fit(frameName(node), w - 7);
			context.globalAlpha = matches && !matched ? 0.6 : 1;
			context.fillStyle = matches && !matched ? style.text : "#101418";
			if (text)
				context.fillText(text, x + 3.5, y + ROW / 2, w - 5);
		}
	}
	context.globalAlpha = 1;
}

function outline(node, y, style) {
	if (node < 0 || !rows[depth[node]] || !rows[depth[node]].includes(node))
		return;
	context.strokeStyle = style;
	context.lineWidth = 2;
	context.strokeRect(nodeX(node) + 1, y + rowY(depth[node]), Math.max(nodeWidth(node) - 2, 1), ROW - 2);
}

function draw() {
	pending = false;
	const css = getComputedStyle(document.documentElement), top = view.scrollTop;
	const style = { text: css.getPropertyValue("--text"), focus: css.getPropertyValue("--focus") };
	context.clearRect(0, 0, width, height);
	for (let level = 0; level < rows.length; level++) {
		const y = rowY(level) - top;
		if (rows[level] && y > -ROW && y < height)
			drawRow(level, y, style);
	}
	outline(hover, -top, style.text);
	outline(focus, -top, style.focus);
}

function redraw() {
	if (!pending) {
		pending = true;
		requestAnimationFrame(draw);
	}
}

function update() {
	layout();
	draw();
}

// Words.
function count(value) {
	if (data.unit === "byte")
		return bytes(value);
	return value.toLocaleString("en-US") + " " + (data.unit || "sample") + (value === 1 ? "" : "s");
}
function bytes(value) {
	const size = Math.abs(value), power = size < 1024 ? 0 : size < 1024 ** 2 ? 1 : size < 1024 ** 3 ? 2 : 3;
	return (value / 1024 ** power).toFixed([0, 1, 1, 2][power]) + " " + ["B", "KiB", "MiB", "GiB"][power];
}
const percent = (part, whole) => (whole ? 100 * part / whole : 0).toFixed(2) + "%";
function time(value) {
	if (calls) // how long each took is not the same
		return count(value);
	const s = value * seconds;
	return s >= 100 ? s.toFixed(0) + " s" : s >= 1 ? s.toFixed(2) + " s" : (s * 1000).toFixed(0) + " ms";
}
function element(tag, text, className) {
	const made = document.createElement(tag);
	if (text !== undefined)
		made.textContent = text;
	if (className)
		made.className = className;
	return made;
}

const number4 = value => value.toLocaleString("en-US", { minimumFractionDigits: 4, maximumFractionDigits: 4 });
const signed = value => (value >= 0 ? "+" : "−") + number4(Math.abs(value));
const sign = ({ by, error, sure }) => !error ? "" : ` (${(Math.abs(by) / error).toFixed(1)} × sampling error${sure ? "" : ": may be chance"})`;
function describeChange(node) {
	const words = (both, old) => {
		const c = change(both, old);
		return `${number4(c.old)} → ${number4(c.fresh)}, ${signed(c.by)}${sign(c)}`;
	};
	return `${frameName(node)}: total ${words(total[node], totalOld[node])}; own ${words(own[node], ownOld[node])} ${diff.unit}`;
}

function describe(node) {
	if (diff)
		return describeChange(node);
	const words = value => (calls ? count(value) : `${count(value)}, ${time(value)}`) + `, ${percent(value, all)}`;
	let text = `${frameName(node)}: total ${words(total[node])}`;
	if (zoomed && node > zoomed)
		text += ` (${percent(total[node], total[zoomed])} of what is shown)`;
	return text + `; own ${words(own[node])}`;
}

function showDetail() {
	const node = hover >= 0 ? hover : focus >= 0 ? focus : -1;
	$("detail").textContent = node >= 0 ? describe(node) : "\u00a0";
}

function tipRow(label, value) {
	const row = element("tr");
	row.append(element("td", label), element("td", count(value)));
	if (!calls)
		row.append(element("td", time(value)));
	row.append(element("td", percent(value, all)));
	if (zoomed)
		row.append(element("td", percent(value, total[zoomed]) + " of shown"));
	return row;
}

function tipChange(label, both, old) {
	const row = element("tr"), c = change(both, old);
	row.append(element("td", label), element("td", `${number4(c.old)} → ${number4(c.fresh)}`),
		element("td", signed(c.by)), element("td", sign(c)));
	return row;
}

function showTip(event) {
	const tip = $("tip");
	tip.hidden = hover < 0;
	if (hover < 0)
		return;
	const table = element("table");
	if (diff)
		table.append(tipChange("Total", total[hover], totalOld[hover]), tipChange("Own", own[hover], ownOld[hover]));
	else
		table.append(tipRow("Total", total[hover]), tipRow("Own", own[hover]));
	const heading = element("strong", frameName(hover));
	tip.replaceChildren(heading, table);
	const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
	const below = event.clientY + 18;
	tip.style.left = Math.max(4, left) + "px";
	tip.style.top = (below + tip.offsetHeight > innerHeight ?
		Math.max(4, event.clientY - tip.offsetHeight - 10) : below) + "px";
}

function nodeAt(event) {
	const box = canvas.getBoundingClientRect();
	const x = event.clientX - box.left, y = event.clientY - box.top + view.scrollTop;
	const level = Math.floor((fromTop ? y : Math.max(contentHeight, height) - y) / ROW);
	const row = rows[level];
	if (!row)
		return -1;
	let low = 0, high = row.length - 1;
	while (low < high) {
		const middle = (low + high + 1) >> 1;
		if (nodeX(row[middle]) <= x)
			low = middle;
		else
			high = middle - 1;
	}
	return x < nodeX(row[low]) + Math.max(nodeWidth(row[low]), 1) ? row[low] : -1;
}

// The address holds search, zoom and direction, so that a link shows the same picture.
function saveState() {
	const parts = [];
	if ($("search").value)
		parts.push("s=" + encodeURIComponent($("search").value));
	if (zoomed)
		parts.push("z=" + zoomed);
	if (!fromTop)
		parts.push("f=1");
	if (chosen)
		parts.push("m=" + chosen);
	if (!$("table").hidden)
		parts.push("t=1");
	try {
		history.replaceState(null, "", "#" + parts.join("&"));
	} catch (error) {
		// Some viewers of attachments forbid it: the picture works without.
	}
}

function loadState() {
	const parts = new Map(location.hash.slice(1).split("&").map(part => {
		const at = part.indexOf("=");
		return [part.slice(0, at), part.slice(at + 1)];
	}));
	let words = "";
	try {
		words = decodeURIComponent(parts.get("s") || "");
	} catch (error) {
		words = parts.get("s");
	}
	const node = Math.floor(Number(parts.get("z") || 0));
	fromTop = parts.get("f") !== "1";
	$("search").value = words;
	setList(parts.get("t") === "1");
	search();
	setZoom(node > 0 && node < nr ? node : 0);
}

function showCrumbs() {
	const path = [], crumbs = $("crumbs");
	crumbs.replaceChildren();
	if (!zoomed) {
		crumbs.append(element("span", "Click a frame to zoom in. Arrow keys move, Enter zooms, Escape goes back."));
		return;
	}
	for (let node = zoomed; node >= 0; node = parent[node])
		path.unshift(node);
	path.forEach((node, i) => {
		if (i > 1 && i < path.length - 4) {
			if (i === 2)
				crumbs.append(element("span", `› ${path.length - 6} more `));
			return;
		}
		if (i)
			crumbs.append(element("span", "›"));
		if (node === zoomed) {
			crumbs.append(element("strong", frameName(node)));
			return;
		}
		const button = element("button", frameName(node));
		button.addEventListener("click", () => go(node));
		crumbs.append(button);
	});
	crumbs.append(element("span", diff ? percent(total[zoomed], all) :
		`${count(total[zoomed])}, ${percent(total[zoomed], all)}`));
}

function setZoom(node) {
	zoomed = node;
	$("reset").disabled = !node;
	$("turn").textContent = fromTop ? "Root at bottom" : "Root at top";
	showCrumbs();
	layout();
	const y = rowY(depth[node]);
	if (y < view.scrollTop || y + ROW > view.scrollTop + height || node === 0)
		view.scrollTop = node === 0 ? (fromTop ? 0 : contentHeight) :
			fromTop ? y - 3 * ROW : y - height + 4 * ROW;
	redraw();
}

function go(node) {
	hover = -1;
	$("tip").hidden = true;
	setZoom(node);
	showDetail();
	saveState();
}

function search() {
	const words = $("search").value, output = $("matched");
	$("search").classList.remove("literal");
	matches = null;
	output.textContent = "";
	if (words) {
		let test;
		try {
			const regex = new RegExp(words, /[A-Z]/.test(words) ? "" : "i");
			test = text => regex.test(text);
		} catch (error) {
			$("search").classList.add("literal"); // half-typed expressions are taken as they are
			test = text => text.toLowerCase().includes(words.toLowerCase());
		}
		matches = data.names.map(test);
		// A match inside a match counts once.
		let sum = 0;
		for (let node = 1; node < nr;) {
			if (matches[name[node]]) {
				sum += total[node];
				node = skip[node];
			} else {
				node++;
			}
		}
		output.textContent = sum ? percent(sum, all) + " matched" : "no match";
		if (!sum)
			matches = null;
	}
	redraw();
}

// Functions by own or total time; a recursion counts once per stack.
let listed = null, listKey = "own";
function functions() {
	const owns = new Float64Array(data.names.length), totals = new Float64Array(data.names.length);
	const ownsOld = new Float64Array(data.names.length);
	const open = new Int32Array(data.names.length), path = [];
	for (let node = 1; node < nr; node++) {
		while (path.length && node >= skip[path[path.length - 1]])
			open[name[path.pop()]]--;
		if (!open[name[node]]++)
			totals[name[node]] += total[node];
		path.push(node);
		owns[name[node]] += own[node];
		ownsOld[name[node]] += ownOld[node];
	}
	const used = [];
	for (let i = 0; i < data.names.length; i++)
		if (!"046".includes(data.kinds[i]))
			used.push({ name: i, own: owns[i], total: totals[i], ownOld: ownsOld[i],
				by: Math.abs(owns[i] - 2 * ownsOld[i]) });
	return used;
}

function showList() {
	listed = listed || functions();
	const other = listKey === "own" ? "total" : "own";
	if (diff && listKey === "own")
		listKey = "by";
	const most = [...listed].sort((a, b) => b[listKey] - a[listKey] || b[other] - a[other]).slice(0, 300);
	const table = element("table"), head = element("tr"), body = element("tbody");
	for (const [label, key] of diff ? [["Own before", ""], ["after", ""], ["change", ""], ["", ""], ["Function", ""]] : [["%Own", "own"], ["%Total", "total"], ["Own", "own"], ["Total", "total"], ["Function", ""]]) {
		const cell = element("th"), button = element("button", label + (key === listKey && label[0] === "%" ? " ▾" : ""));
		if (key)
			button.addEventListener("click", () => { listKey = key; showList(); });
		cell.append(key ? button : label);
		head.append(cell);
	}
	for (const row of most) {
		const line = element("tr"), cell = element("td"), mark = element("i"), button = element("button");
		mark.style.background = diff ? diffColour(row.own, row.ownOld) : colours[row.name];
		button.append(mark, data.names[row.name]);
		button.title = "Show in the graph";
		button.addEventListener("click", () => {
			$("search").value = "^" + data.names[row.name].replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "$";
			setList(false);
			search();
			go(0);
		});
		cell.append(button);
		const c = diff && change(row.own, row.ownOld);
		const cells = diff ? [number4(c.old), number4(c.fresh), signed(c.by), sign(c)] :
			[percent(row.own, all), percent(row.total, all), time(row.own), time(row.total)];
		line.append(...cells.map(text => element("td", text)), cell);
		body.append(line);
	}
	const top = element("thead");
	top.append(head);
	table.append(top, body);
	$("table").replaceChildren(table);
}

function setList(on) {
	$("table").hidden = !on;
	view.hidden = on;
	$("list").textContent = on ? "Graph" : "Functions";
	if (on)
		showList();
}

function showDiffLegend() {
	for (const [label, colour] of [["grew", diffColour(2e9, 0)], ["shrank", diffColour(2e9, 2e9)],
			[diff.sample_before || diff.sample_after ? "no more than chance (2 sampling errors)" : "the same", diffColour(0, 0)]]) {
		const item = element("li"), mark = element("i");
		mark.style.background = colour;
		item.append(mark, label);
		$("legend").append(item);
	}
	$("legend").append(element("li", `in ${diff.unit}; widths: before and after together`, "quiet"));
}

function showLegend() {
	$("legend").replaceChildren();
	if (diff) {
		showDiffLegend();
		return;
	}
	$("legend").append(element("li", "Innermost frame:", "quiet"));
	const shares = new Float64Array(KINDS.length);
	for (let node = 1; node < nr; node++)
		shares[frameKind(node)] += own[node];
	for (const kind of LEGEND) {
		if (!data.kinds.includes(String(kind)))
			continue;
		const item = element("li"), mark = element("i"), [h, s, l] = KINDS[kind].hsl;
		const label = kind === 5 && data.unit !== unit ? "call or label" : KINDS[kind].label;
		mark.style.background = `hsl(${h}, ${s}%, ${l}%)`;
		item.append(mark, label);
		if (kind !== 4) {
			item.append(" ", element("b", percent(shares[kind], all)));
			item.title = `${data.unit === "call" ? "Calls" : data.unit === "byte" ? "Bytes" : "Samples"} whose innermost frame is ${label}`;
		} else {
			item.title = "[truncated]: the outer part of the stack is missing; [unmerged]: native and Python frames did not pair up; [no stack]: none was taken";
		}
		$("legend").append(item);
	}
}

// Keys.
function neighbour(key) {
	const node = focus, row = rows[depth[node]] || [], at = row.indexOf(node);
	const inward = fromTop ? "ArrowDown" : "ArrowUp";
	if (key === "ArrowLeft" || key === "ArrowRight")
		return row[at + (key === "ArrowLeft" ? -1 : 1)];
	if (key !== inward)
		return parent[node];
	if (node < zoomed)
		return rows[depth[node] + 1][0];
	return (rows[depth[node] + 1] || []).find(child => parent[child] === node);
}

function moveFocus(key) {
	if (focus < 0 || !rows[depth[focus]] || !rows[depth[focus]].includes(focus)) {
		focus = zoomed;
	} else {
		const next = neighbour(key);
		if (next !== undefined && next >= 0)
			focus = next;
	}
	hover = -1;
	$("tip").hidden = true;
	const y = rowY(depth[focus]);
	if (y < view.scrollTop)
		view.scrollTop = y - ROW;
	else if (y + ROW > view.scrollTop + height)
		view.scrollTop = y + 2 * ROW - height;
	showDetail();
	redraw();
}

function turn() {
	fromTop = !fromTop;
	go(zoomed);
	view.scrollTop = fromTop ? 0 : contentHeight;
}

function escape() {
	if ($("search").value && document.activeElement === $("search")) {
		$("search").value = "";
		search();
		view.focus();
	} else if (!$("table").hidden) {
		setList(false);
		update();
	} else if (zoomed) {
		go(0);
	} else {
		$("search").value = "";
		search();
	}
	saveState();
}

document.addEventListener("keydown", event => {
	const typing = event.target === $("search");
	if (event.ctrlKey || event.metaKey || event.altKey)
		return;
	if (event.key === "Escape") {
		escape();
	} else if (typing) {
		if (event.key === "Enter")
			view.focus();
		return;
	} else if (event.key === "/") {
		$("search").focus();
		$("search").select();
	} else if (event.key.startsWith("Arrow") && !view.hidden) {
		moveFocus(event.key);
	} else if (event.key === "Enter" && document.activeElement === view && focus >= 0) {
		go(focus);
	} else if (event.key === "i") {
		turn();
	} else if (event.key === "t") {
		$("list").click();
	} else {
		return;
	}
	event.preventDefault();
});
canvas.addEventListener("mousemove", event => {
	const node = nodeAt(event);
	if (node !== hover) {
		hover = node;
		canvas.style.cursor = node >= 0 ? "pointer" : "default";
		showDetail();
		redraw();
	}
	showTip(event);
});
canvas.addEventListener("mouseleave", () => {
	hover = -1;
	$("tip").hidden = true;
	showDetail();
	redraw();
});
canvas.addEventListener("click", event => {
	const node = nodeAt(event);
	if (node >= 0) {
		focus = node;
		go(node);
	}
});
view.addEventListener("scroll", redraw);
$("search").addEventListener("input", () => { search(); saveState(); });
$("reset").addEventListener("click", () => go(0));
$("turn").addEventListener("click", turn);
$("list").addEventListener("click", () => { setList(view.hidden ? false : true); update(); saveState(); });
addEventListener("hashchange", loadState);
new ResizeObserver(() => { if (!view.hidden) update(); }).observe(view);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

showLegend();
if (!all && !data.timeline) {
	$("crumbs").hidden = $("detail").hidden = true;
	canvas.hidden = true;
	$("tools").hidden = true;
	$("empty").hidden = false;
	let lost = 0;
	for (const reason of Object.values(data.stats ? data.stats.lost : {}))
		lost += reason;
	$("empty").textContent = (lost ? `No stacks to show: ${count(lost)} were taken and lost, the reasons are below.` :
		data.unit === "call" ? `No call of CUDA or NCCL in these ${data.seconds} s.` :
		`No samples: nothing that was watched ran on a CPU in these ${data.seconds} s. ` +
		"A CPU profile does not see a program that waits; “bpfprof dump -p PID” shows where it waits.");
}
loadState();
if (!view.hidden)
	draw();

// For the time line: shows other values, in bytes, one for each run and one for the other stacks.
let given = null;
function show(values) {
	given = given || own.slice();
	data.unit = values ? "byte" : unit;
	own.set(given);
	if (values)
		tree.leaves.forEach((leaf, run) => { own[leaf] = values[run]; });
	tree.measure();
	all = total[0];
	listed = null;
	if (focus >= 0 && !total[focus])
		focus = -1;
	showLegend();
	search();
	go(zoomed && total[zoomed] ? zoomed : 0);
	if (view.hidden)
		showList();
}
window.flame = { data, element, bytes, show, nrRuns: tree.leaves.length, choose: text => { chosen = text; } };
})();
